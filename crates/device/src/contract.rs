//! The contract tests that every [`Device`] passes.
//!
//! They are a library, so that every executor can run them: wrap a way to make devices in a
//! [`Bench`] and run [`all`], or one [`Clause`] at a time; then some seeds of [`random_history`]. A
//! broken clause panics with what was expected.
//!
//! They do not check losses by a power cut (only a device that can be cut knows these; see
//! [`MemoryDevice::crash`](crate::MemoryDevice::crash)), durability on real media, or speed.

mod random;

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::{AlignedBuf, Device, DeviceError, ErrorKind};

pub use random::random_history;

/// Makes the devices that the tests run on.
#[allow(async_fn_in_trait)] // The tests run on one thread, as devices do.
pub trait Bench {
    /// What is tested.
    type Device: Device;

    /// A new device, empty, of at least 4 zones of at least 8 blocks, with at least two zones
    /// that may be open at once.
    async fn fresh(&self) -> Self::Device;

    /// Closes `device` without a power cut and opens it again; `None` if it lives in memory only.
    async fn reopen(&self, device: Self::Device) -> Option<Self::Device>;

    /// Whether the device can be made larger.
    fn grows(&self) -> bool {
        true
    }
}

/// One promise of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// Every zone starts sealed, and takes appends after a reset.
    ZonesStartSealed,
    /// Appends claim addresses in the order of calls, whatever the order of polling.
    CallsClaimAddresses,
    /// Several zones take appends at the same time.
    ZonesAreIndependent,
    /// An append off the write pointer is refused, and changes nothing.
    WrongAddressIsRefused,
    /// Pieces that are not whole blocks, and appends without blocks, are refused.
    MisalignedAppendsAreRefused,
    /// The longest append works; one block more is refused.
    LongestAppend,
    /// An append over the end of its zone is refused; one up to the end works.
    ZoneEndIsRefused,
    /// What was appended is read back, in parts and across appends, from many small pieces too.
    ReadsReturnAppends,
    /// Reads that leave a zone or the device, or are not whole blocks, are refused.
    BadReadsAreRefused,
    /// Reads at or past the write pointer do not fail the program.
    ReadsPastThePointerAreHarmless,
    /// A sealed zone takes no appends, stays readable, and can be sealed again.
    SealedZonesTakeNoAppends,
    /// A reset empties a zone in any state, and later appends land at its start.
    ResetEmptiesZones,
    /// A released zone takes no appends until it is reset, can be read and released again, and touches no
    /// other.
    ReleasedZonesTakeNoAppends,
    /// Seals, resets and releases of zones that do not exist are refused.
    UnknownZonesAreRefused,
    /// There is no root at first; then the last one written is read, whatever its length.
    RootIsReplaced,
    /// A root that is too long is refused, and the old one stays.
    LongRootIsRefused,
    /// A flush completes, with appends in flight too.
    FlushCompletes,
    /// Growing adds sealed zones and keeps what there is; it never shrinks the device.
    GrowAddsZones,
    /// Growing beyond what can be addressed is refused.
    EndlessGrowthIsRefused,
    /// Dropped futures leave a device that works.
    FuturesMayBeDropped,
    /// After re-opening, blocks and root are there, and every zone is sealed until it is reset.
    ReopeningKeepsContents,
    /// After re-opening, a grown device has its zones.
    ReopeningKeepsGrowth,
}

impl Clause {
    /// Every clause.
    pub const ALL: [Clause; 22] = [
        Clause::ZonesStartSealed,
        Clause::CallsClaimAddresses,
        Clause::ZonesAreIndependent,
        Clause::WrongAddressIsRefused,
        Clause::MisalignedAppendsAreRefused,
        Clause::LongestAppend,
        Clause::ZoneEndIsRefused,
        Clause::ReadsReturnAppends,
        Clause::BadReadsAreRefused,
        Clause::ReadsPastThePointerAreHarmless,
        Clause::SealedZonesTakeNoAppends,
        Clause::ResetEmptiesZones,
        Clause::ReleasedZonesTakeNoAppends,
        Clause::UnknownZonesAreRefused,
        Clause::RootIsReplaced,
        Clause::LongRootIsRefused,
        Clause::FlushCompletes,
        Clause::GrowAddsZones,
        Clause::EndlessGrowthIsRefused,
        Clause::FuturesMayBeDropped,
        Clause::ReopeningKeepsContents,
        Clause::ReopeningKeepsGrowth,
    ];
}

/// Tests every clause, each on a fresh device, and prints its name first, so that a panic can be
/// told from the last line.
pub async fn all(bench: &impl Bench) {
    for clause in Clause::ALL {
        eprintln!("device contract: {clause:?}");
        check(bench, clause).await;
    }
}

/// Tests one clause on a fresh device.
///
/// # Panics
///
/// If the device breaks the clause.
pub async fn check<B: Bench>(bench: &B, clause: Clause) {
    if !bench.grows() && [Clause::GrowAddsZones, Clause::ReopeningKeepsGrowth].contains(&clause) {
        return;
    }
    let device = bench.fresh().await;
    let info = device.info();
    assert!(info.zones >= 4 && info.zone_blocks >= 8, "too small to test: {info:?}");
    let t = Tested { device, zone_blocks: info.zone_blocks, longest: info.append_blocks_max };
    match clause {
        Clause::ZonesStartSealed => t.zones_start_sealed().await,
        Clause::CallsClaimAddresses => t.calls_claim_addresses().await,
        Clause::ZonesAreIndependent => t.zones_are_independent().await,
        Clause::WrongAddressIsRefused => t.wrong_address_is_refused().await,
        Clause::MisalignedAppendsAreRefused => t.misaligned_appends_are_refused().await,
        Clause::LongestAppend => t.longest_append().await,
        Clause::ZoneEndIsRefused => t.zone_end_is_refused().await,
        Clause::ReadsReturnAppends => t.reads_return_appends().await,
        Clause::BadReadsAreRefused => t.bad_reads_are_refused().await,
        Clause::ReadsPastThePointerAreHarmless => t.reads_past_the_pointer_are_harmless().await,
        Clause::SealedZonesTakeNoAppends => t.sealed_zones_take_no_appends().await,
        Clause::ResetEmptiesZones => t.reset_empties_zones().await,
        Clause::ReleasedZonesTakeNoAppends => t.released_zones_take_no_appends().await,
        Clause::UnknownZonesAreRefused => t.unknown_zones_are_refused().await,
        Clause::RootIsReplaced => t.root_is_replaced().await,
        Clause::LongRootIsRefused => t.long_root_is_refused().await,
        Clause::FlushCompletes => t.flush_completes().await,
        Clause::GrowAddsZones => t.grow_adds_zones().await,
        Clause::EndlessGrowthIsRefused => t.endless_growth_is_refused().await,
        Clause::FuturesMayBeDropped => t.futures_may_be_dropped().await,
        Clause::ReopeningKeepsContents => t.reopening_keeps_contents(bench).await,
        Clause::ReopeningKeepsGrowth => t.reopening_keeps_growth(bench).await,
    }
}

struct Tested<D> {
    device: D,
    zone_blocks: u64,
    longest: u64,
}

/// Block contents that tell where they belong: no two tags share a word.
fn payload(tag: u64, blocks: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed((blocks * BLOCK_SIZE) as usize);
    for (index, block) in buffer.as_mut().chunks_exact_mut(BLOCK_BYTES).enumerate() {
        for (word, bytes) in block.chunks_exact_mut(8).enumerate() {
            let value = (tag << 32) | ((index as u64) << 12) | word as u64;
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    buffer.freeze()
}

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(result: Result<T, DeviceError>, what: &str) {
    match result {
        Err(error) if error.kind == ErrorKind::Invalid => {
            assert!(!error.context.is_empty(), "{what}: the refusal says nothing");
        }
        other => panic!("{what}: expected Invalid, got {other:?}"),
    }
}

/// Polls a future once, so that whatever it does at its first poll has happened.
async fn nudge<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl<D: Device> Tested<D> {
    fn at(&self, zone: u32, offset: u64) -> Pba {
        ZoneId(zone).start(self.zone_blocks).plus(offset)
    }

    async fn reset(&self, zone: u32) {
        self.device.reset(ZoneId(zone)).await.expect("a reset works");
    }

    async fn append(&self, at: Pba, data: Bytes) {
        let landed = self.device.append(at, vec![data]).await;
        assert_eq!(landed, Ok(at), "an append at the write pointer lands there");
    }

    async fn expect(&self, at: Pba, data: &[u8], what: &str) {
        let read = self.device.read(at, AlignedBuf::zeroed(data.len())).await;
        let read = read.unwrap_or_else(|error| panic!("{what}: reading {at}: {error}"));
        let differs = read.as_ref().iter().zip(data).position(|(read, wanted)| read != wanted);
        assert!(
            read.len() == data.len() && differs.is_none(),
            "{what}: {at} reads wrong from byte {differs:?} on"
        );
    }

    async fn zones_start_sealed(&self) {
        for zone in [0, self.device.info().zones - 1] {
            let early = self.device.append(self.at(zone, 0), vec![payload(1, 1)]).await;
            assert_invalid(early, "an append to a zone that was never reset");
            self.reset(zone).await;
            self.append(self.at(zone, 0), payload(2, 1)).await;
            self.expect(self.at(zone, 0), &payload(2, 1), "after the reset").await;
        }
    }

    async fn calls_claim_addresses(&self) {
        self.reset(1).await;
        let mut appends: Vec<_> = (0..6)
            .map(|n| Box::pin(self.device.append(self.at(1, n), vec![payload(n + 1, 1)])))
            .collect();
        let wrong = self.device.append(self.at(1, 5), vec![payload(9, 1)]);
        assert_invalid(wrong.await, "an append at an address that a call before it claimed");
        // The last called is polled and finished first.
        while let Some(append) = appends.pop() {
            let n = appends.len() as u64;
            assert_eq!(append.await, Ok(self.at(1, n)), "append {n} lands where it was called");
        }
        for n in 0..6 {
            self.expect(self.at(1, n), &payload(n + 1, 1), "appended in flight together").await;
        }
    }

    async fn zones_are_independent(&self) {
        let zones = [0, 2];
        for zone in zones {
            self.reset(zone).await;
        }
        let mut appends = Vec::new();
        for n in 0..4 {
            for zone in zones {
                let data = vec![payload(u64::from(zone) * 10 + n + 1, 2)];
                appends.push(Box::pin(self.device.append(self.at(zone, n * 2), data)));
            }
        }
        // All are under way before one is waited for.
        let mut early = Vec::new();
        for append in &mut appends {
            early.push(nudge(append).await);
        }
        for (append, early) in appends.into_iter().zip(early) {
            let landed = match early {
                Some(landed) => landed,
                None => append.await,
            };
            landed.expect("an append works");
        }
        for n in 0..4 {
            for zone in zones {
                let data = payload(u64::from(zone) * 10 + n + 1, 2);
                self.expect(self.at(zone, n * 2), &data, "interleaved between zones").await;
            }
        }
    }

    async fn wrong_address_is_refused(&self) {
        self.reset(0).await;
        self.append(self.at(0, 0), payload(1, 2)).await;
        for offset in [0, 1, 3, self.zone_blocks - 1] {
            let result = self.device.append(self.at(0, offset), vec![payload(2, 1)]).await;
            assert_invalid(result, "an append off the write pointer");
        }
        let end = Pba(self.device.info().blocks());
        for at in [end, Pba::MAX, Pba(u64::MAX)] {
            let result = self.device.append(at, vec![payload(2, 1)]).await;
            assert_invalid(result, "an append past the end of the device");
        }
        self.append(self.at(0, 2), payload(3, 1)).await;
        self.expect(self.at(0, 0), &payload(1, 2), "refused appends wrote nothing").await;
        self.expect(self.at(0, 2), &payload(3, 1), "the pointer did not move").await;
    }

    async fn misaligned_appends_are_refused(&self) {
        self.reset(0).await;
        let whole = payload(1, 2);
        for data in [
            vec![],
            vec![Bytes::new()],
            vec![whole.slice(..1)],
            vec![whole.slice(..BLOCK_BYTES + 1)],
            vec![whole.slice(..BLOCK_BYTES - 1)],
            vec![whole.slice(..512), whole.slice(512..BLOCK_BYTES)],
            vec![whole.clone(), whole.slice(..512)],
        ] {
            let lengths: Vec<usize> = data.iter().map(Bytes::len).collect();
            let result = self.device.append(self.at(0, 0), data).await;
            assert_invalid(result, &format!("an append of pieces of {lengths:?} bytes"));
        }
        self.append(self.at(0, 0), whole).await;
    }

    async fn longest_append(&self) {
        self.reset(0).await;
        let longest = self.longest.min(self.zone_blocks);
        if self.longest < self.zone_blocks {
            let result = self.device.append(self.at(0, 0), vec![payload(1, longest + 1)]).await;
            assert_invalid(result, "an append longer than the longest");
        }
        let data = payload(2, longest);
        self.append(self.at(0, 0), data.clone()).await;
        self.expect(self.at(0, 0), &data, "the longest append").await;
    }

    async fn zone_end_is_refused(&self) {
        self.reset(1).await;
        let mut pointer = 0;
        while self.zone_blocks - pointer > 3 {
            let blocks = self.longest.min(self.zone_blocks - pointer - 3);
            self.append(self.at(1, pointer), payload(pointer, blocks)).await;
            pointer += blocks;
        }
        if self.longest >= 4 {
            let result = self.device.append(self.at(1, pointer), vec![payload(1, 4)]).await;
            assert_invalid(result, "an append over the end of its zone");
        }
        for n in pointer..self.zone_blocks {
            self.append(self.at(1, n), payload(1000 + n, 1)).await;
        }
        let result = self.device.append(self.at(2, 0), vec![payload(1, 1)]).await;
        assert_invalid(result, "an append to the zone after a full one");
        self.expect(self.at(1, pointer), &payload(1000 + pointer, 1), "near the end").await;
    }

    async fn reads_return_appends(&self) {
        self.reset(1).await;
        // Eight blocks by three appends: one piece; pieces of one block; pieces off alignment.
        let data = payload(1, 8);
        let slice = |from: usize, to: usize| data.slice(from * BLOCK_BYTES..to * BLOCK_BYTES);
        self.append(self.at(1, 0), slice(0, 3)).await;
        let pieces = vec![slice(3, 4), Bytes::new(), slice(4, 5)];
        assert_eq!(self.device.append(self.at(1, 3), pieces).await, Ok(self.at(1, 3)));
        let odd = |from: usize, to: usize| {
            let mut shifted = AlignedBuf::zeroed((to - from) * BLOCK_BYTES + 1);
            shifted.as_mut()[1..].copy_from_slice(&slice(from, to));
            shifted.freeze().slice(1..)
        };
        let pieces = vec![odd(5, 6), slice(6, 7), odd(7, 8)];
        assert_eq!(self.device.append(self.at(1, 5), pieces).await, Ok(self.at(1, 5)));
        for from in 0..8 {
            for to in from + 1..=8 {
                let at = self.at(1, from as u64);
                self.expect(at, &slice(from, to), &format!("blocks {from}..{to}")).await;
            }
        }
        // More pieces than one system call takes, where there is room for them.
        let blocks = self.longest.min(1500).min(self.zone_blocks);
        self.reset(2).await;
        let data = payload(2, blocks);
        let pieces =
            (0..blocks as usize).map(|n| data.slice(n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES));
        assert_eq!(self.device.append(self.at(2, 0), pieces.collect()).await, Ok(self.at(2, 0)));
        self.expect(self.at(2, 0), &data, "an append of many pieces").await;
    }

    async fn bad_reads_are_refused(&self) {
        let read = |at: Pba, bytes: usize| self.device.read(at, AlignedBuf::zeroed(bytes));
        let end = Pba(self.device.info().blocks());
        for at in [end, Pba::MAX, Pba(u64::MAX)] {
            assert_invalid(read(at, BLOCK_BYTES).await, "a read past the end of the device");
        }
        let last = self.at(0, self.zone_blocks - 1);
        assert_invalid(read(last, 2 * BLOCK_BYTES).await, "a read out of its zone");
        for bytes in [0, 1, 512, BLOCK_BYTES - 1, BLOCK_BYTES + 512] {
            let what = format!("a read of {bytes} bytes");
            assert_invalid(read(self.at(0, 0), bytes).await, &what);
        }
    }

    async fn reads_past_the_pointer_are_harmless(&self) {
        for zone in 0..2 {
            if zone == 1 {
                self.reset(zone).await;
                self.append(self.at(zone, 0), payload(1, 1)).await;
            }
            // Any bytes, or an error that says that there are none.
            let buffer = AlignedBuf::zeroed(4 * BLOCK_BYTES);
            if let Err(error) = self.device.read(self.at(zone, 2), buffer).await {
                assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
            }
        }
    }

    async fn sealed_zones_take_no_appends(&self) {
        self.reset(0).await;
        self.append(self.at(0, 0), payload(1, 2)).await;
        for _ in 0..2 {
            self.device.seal(ZoneId(0)).await.expect("a seal works");
            let result = self.device.append(self.at(0, 2), vec![payload(2, 1)]).await;
            assert_invalid(result, "an append to a sealed zone");
        }
        self.expect(self.at(0, 0), &payload(1, 2), "a sealed zone").await;
    }

    async fn reset_empties_zones(&self) {
        for round in 0..3 {
            self.reset(1).await;
            let result = self.device.append(self.at(1, 2), vec![payload(1, 1)]).await;
            assert_invalid(result, "an append at the write pointer of before the reset");
            self.append(self.at(1, 0), payload(round * 2 + 1, 2)).await;
            self.append(self.at(1, 2), payload(round * 2 + 2, 1)).await;
            self.expect(self.at(1, 0), &payload(round * 2 + 1, 2), "after a reset").await;
            if round == 1 {
                self.device.seal(ZoneId(1)).await.expect("a seal works");
            }
        }
        // An empty zone can be reset too, and a neighbour is not touched.
        self.reset(2).await;
        self.reset(2).await;
        self.append(self.at(2, 0), payload(9, 1)).await;
        self.expect(self.at(1, 0), &payload(5, 2), "beside a reset").await;
    }

    async fn released_zones_take_no_appends(&self) {
        self.reset(0).await;
        self.reset(1).await;
        self.append(self.at(1, 0), payload(3, 2)).await;
        for round in 0..3 {
            self.append(self.at(0, 0), payload(round, 2)).await;
            if round == 1 {
                self.device.seal(ZoneId(0)).await.expect("a seal works");
            }
            for _ in 0..2 {
                self.device.release(ZoneId(0)).await.expect("a release works");
                let result = self.device.append(self.at(0, 2), vec![payload(2, 1)]).await;
                assert_invalid(result, "an append to a released zone");
            }
            let buffer = AlignedBuf::zeroed(2 * BLOCK_BYTES);
            let _ = self.device.read(self.at(0, 0), buffer).await;
            // Nor does a release that nobody waits for reach what comes after a reset.
            let mut release = Box::pin(self.device.release(ZoneId(0)));
            let _ = nudge(&mut release).await;
            drop(release);
            self.reset(0).await;
            self.append(self.at(0, 0), payload(20 + round, 3)).await;
            self.expect(self.at(0, 0), &payload(20 + round, 3), "after a release and a reset")
                .await;
            self.reset(0).await;
        }
        self.expect(self.at(1, 0), &payload(3, 2), "beside a release").await;
    }

    async fn unknown_zones_are_refused(&self) {
        for zone in [self.device.info().zones, u32::MAX] {
            assert_invalid(self.device.seal(ZoneId(zone)).await, "a seal of no zone");
            assert_invalid(self.device.reset(ZoneId(zone)).await, "a reset of no zone");
            assert_invalid(self.device.release(ZoneId(zone)).await, "a release of no zone");
        }
    }

    async fn root_is_replaced(&self) {
        assert_eq!(self.device.read_root().await, Ok(None), "a new device has no root");
        for length in [10, D::ROOT_BYTES_MAX, 0, 3, 100, 200] {
            let root = Bytes::from(vec![length as u8; length]);
            self.device.write_root(root.clone()).await.expect("a root can be written");
            assert_eq!(self.device.read_root().await, Ok(Some(root)), "the root last written");
        }
    }

    async fn long_root_is_refused(&self) {
        let root = Bytes::from_static(b"the old root");
        self.device.write_root(root.clone()).await.expect("a root can be written");
        let long = Bytes::from(vec![1; D::ROOT_BYTES_MAX + 1]);
        assert_invalid(self.device.write_root(long).await, "a root that is too long");
        assert_eq!(self.device.read_root().await, Ok(Some(root)), "the old root stays");
    }

    async fn flush_completes(&self) {
        self.device.flush().await.expect("a flush of nothing works");
        self.reset(0).await;
        let append = self.device.append(self.at(0, 0), vec![payload(1, 2)]);
        self.device.flush().await.expect("a flush with an append in flight works");
        append.await.expect("the append works");
        self.device.flush().await.expect("a flush works");
        self.expect(self.at(0, 0), &payload(1, 2), "after a flush").await;
    }

    async fn grow_adds_zones(&self) {
        let before = self.device.info();
        self.reset(0).await;
        self.append(self.at(0, 0), payload(1, 1)).await;
        // Room for two more zones, and for what a container may need for itself.
        let wanted = before.bytes() + 2 * self.zone_blocks * BLOCK_SIZE + (4 << 20);
        let zones = self.device.grow(wanted).await.expect("growing works");
        assert!(zones >= before.zones + 2, "{zones} zones after growing from {}", before.zones);
        assert_eq!(self.device.info().zones, zones, "what growing returned is what there is");
        let result = self.device.append(self.at(zones - 1, 0), vec![payload(2, 1)]).await;
        assert_invalid(result, "an append to a new zone that was not reset");
        self.reset(zones - 1).await;
        self.append(self.at(zones - 1, 0), payload(2, 1)).await;
        self.append(self.at(0, 1), payload(3, 1)).await;
        self.expect(self.at(0, 0), &payload(1, 1), "from before growing").await;
        self.expect(self.at(zones - 1, 0), &payload(2, 1), "in the new zone").await;
        for bytes in [0, before.bytes()] {
            assert_eq!(self.device.grow(bytes).await, Ok(zones), "growing never shrinks");
        }
    }

    async fn endless_growth_is_refused(&self) {
        let zones = self.device.info().zones;
        assert_invalid(self.device.grow(u64::MAX).await, "growing to 2^64 bytes");
        assert_eq!(self.device.info().zones, zones, "a refused growth changes nothing");
    }

    async fn futures_may_be_dropped(&self) {
        self.reset(0).await;
        for n in 0..4 {
            let mut append = Box::pin(self.device.append(self.at(0, n), vec![payload(n + 1, 1)]));
            if n % 2 == 0 {
                let _ = nudge(&mut append).await;
            }
        }
        for n in 0..4 {
            let mut read =
                Box::pin(self.device.read(self.at(0, n), AlignedBuf::zeroed(BLOCK_BYTES)));
            if n % 2 == 0 {
                let _ = nudge(&mut read).await;
            }
        }
        let mut flush = Box::pin(self.device.flush());
        let _ = nudge(&mut flush).await;
        drop(flush);
        let mut root = Box::pin(self.device.write_root(Bytes::from_static(b"dropped")));
        let _ = nudge(&mut root).await;
        drop(root);
        self.append(self.at(0, 4), payload(5, 1)).await;
        self.expect(self.at(0, 4), &payload(5, 1), "after dropped appends").await;
        let mut reset = Box::pin(self.device.reset(ZoneId(0)));
        let _ = nudge(&mut reset).await;
        drop(reset);
        self.reset(0).await;
        self.append(self.at(0, 0), payload(6, 2)).await;
        self.expect(self.at(0, 0), &payload(6, 2), "after a dropped reset").await;
        let root = Bytes::from_static(b"finished");
        self.device.write_root(root.clone()).await.expect("a root can be written");
        assert_eq!(self.device.read_root().await, Ok(Some(root)), "after a dropped write");
        self.device.flush().await.expect("a flush works");
    }

    async fn reopening_keeps_contents(self, bench: &impl Bench<Device = D>) {
        let root = Bytes::from_static(b"here");
        for (zone, blocks) in [(0, 3), (1, 2)] {
            self.reset(zone).await;
            self.append(self.at(zone, 0), payload(u64::from(zone) + 1, blocks)).await;
        }
        self.device.seal(ZoneId(0)).await.expect("a seal works");
        self.device.write_root(root.clone()).await.expect("a root can be written");
        self.device.flush().await.expect("a flush works");
        let before = self.device.info();
        let Some(device) = bench.reopen(self.device).await else { return };
        assert_eq!(device.info(), before, "re-opening changes no ability");
        let t = Tested { device, ..self };
        assert_eq!(t.device.read_root().await, Ok(Some(root)), "the root is there");
        t.expect(t.at(0, 0), &payload(1, 3), "the sealed zone").await;
        t.expect(t.at(1, 0), &payload(2, 2), "the zone that was open").await;
        for at in [t.at(0, 3), t.at(1, 2), t.at(1, 0), t.at(2, 0)] {
            let result = t.device.append(at, vec![payload(3, 1)]).await;
            assert_invalid(result, "an append to a zone not reset since opening");
        }
        t.reset(1).await;
        t.append(t.at(1, 0), payload(4, 1)).await;
        t.expect(t.at(1, 0), &payload(4, 1), "after reset").await;
        t.expect(t.at(0, 0), &payload(1, 3), "the other zone").await;
    }

    async fn reopening_keeps_growth(self, bench: &impl Bench<Device = D>) {
        let before = self.device.info();
        let wanted = before.bytes() + self.zone_blocks * BLOCK_SIZE + (4 << 20);
        let zones = self.device.grow(wanted).await.expect("growing works");
        let Some(device) = bench.reopen(self.device).await else { return };
        assert_eq!(device.info().zones, zones, "the zones that growing added");
        let t = Tested { device, ..self };
        t.reset(zones - 1).await;
        t.append(t.at(zones - 1, 0), payload(1, 1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_lite::future::block_on;

    use super::*;
    use crate::filter::{Fault, Record};
    use crate::{AnyDevice, MemoryDevice, MemoryOptions};

    struct Memory(MemoryOptions);

    impl Bench for Memory {
        type Device = MemoryDevice;
        async fn fresh(&self) -> MemoryDevice {
            let info = MemoryDevice::of_zones(6, 16).info();
            MemoryDevice::with_options(info, self.0)
        }
        async fn reopen(&self, device: MemoryDevice) -> Option<MemoryDevice> {
            Some(device.reopen())
        }
    }

    struct Filtered;

    impl Bench for Filtered {
        type Device = Record<Fault<MemoryDevice>>;
        async fn fresh(&self) -> Self::Device {
            Record::new(Fault::new(MemoryDevice::of_zones(4, 2000)))
        }
        async fn reopen(&self, device: Self::Device) -> Option<Self::Device> {
            Some(Record::new(Fault::new(device.inner().inner().reopen())))
        }
    }

    /// Of a kind that is not known, with the device that keeps the bytes.
    #[derive(Default)]
    struct Erased(RefCell<Option<MemoryDevice>>);

    impl Bench for Erased {
        type Device = AnyDevice;
        async fn fresh(&self) -> AnyDevice {
            let memory = MemoryDevice::of_zones(6, 16);
            *self.0.borrow_mut() = Some(memory.clone());
            AnyDevice::new(memory)
        }
        async fn reopen(&self, _: AnyDevice) -> Option<AnyDevice> {
            let memory = self.0.borrow_mut().take()?.reopen();
            *self.0.borrow_mut() = Some(memory.clone());
            Some(AnyDevice::new(memory))
        }
    }

    #[test]
    fn memory_keeps_the_contract() {
        for (stale_after_reset, gives_back) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let bench =
                Memory(MemoryOptions { stale_after_reset, gives_back, ..MemoryOptions::default() });
            block_on(all(&bench));
            for seed in 0..20 {
                block_on(random_history(&bench, seed, 500));
            }
        }
    }

    #[test]
    fn filters_keep_the_contract() {
        block_on(all(&Filtered));
    }

    #[test]
    fn a_device_of_any_kind_keeps_the_contract() {
        let bench = Erased::default();
        block_on(all(&bench));
        for seed in 0..20 {
            block_on(random_history(&bench, seed, 500));
        }
    }

    /// A clause that nothing can break proves nothing: devices that break the contract in one way
    /// are found out by the clause for it.
    #[test]
    fn a_broken_device_is_found_out() {
        use crate::filter::Verb;

        struct Broken(Verb);
        impl Bench for Broken {
            type Device = Fault<MemoryDevice>;
            async fn fresh(&self) -> Self::Device {
                let device = Fault::new(MemoryDevice::of_zones(4, 16));
                device.control().fail(self.0, 2, ErrorKind::Io, false);
                device
            }
            async fn reopen(&self, _: Self::Device) -> Option<Self::Device> {
                None
            }
        }
        let verdict = |verb, clause| {
            let check = std::panic::AssertUnwindSafe(|| block_on(check(&Broken(verb), clause)));
            std::panic::catch_unwind(check).is_err()
        };
        assert!(verdict(Verb::Append, Clause::CallsClaimAddresses));
        assert!(verdict(Verb::Read, Clause::ReadsReturnAppends));
        assert!(verdict(Verb::Flush, Clause::FlushCompletes));
        assert!(verdict(Verb::Reset, Clause::ResetEmptiesZones));
        assert!(verdict(Verb::WriteRoot, Clause::RootIsReplaced));
        assert!(!verdict(Verb::Grow, Clause::RootIsReplaced));
    }
}
