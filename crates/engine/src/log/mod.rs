//! The log: groups of records and payload, appended to open segments.
//!
//! A group is built in memory: one header block (records and checksums) before its payload, which
//! is never copied. Its place is fixed when it is begun, so a block's address is known, and mapped,
//! the moment it is accepted; until the append completes, reads are served from the group.
//!
//! Everything here is synchronous. What must be written collects in the outbox, in order; the
//! engine hands it to the device at the end of each step.

mod again;
mod append;
mod builder;
mod chains;
mod close;
mod kept;

use again::Refused;
pub(crate) use chains::InFlight;
pub(crate) use kept::fold;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use mjolnir_device::DeviceInfo;
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};

use crate::format::group::GROUP_BLOCKS_MAX;
use crate::log::again::Cut;
use crate::log::builder::{Builder, PayloadBuffers, Size};
use crate::log::chains::Chains;
use crate::log::kept::Kept;

/// No segment can be opened for this stream now.
#[derive(Debug)]
pub(crate) struct NoFreeSegment;

/// A request to the device.
pub(crate) enum Submission {
    /// Append `data` at `at`, then tell the log that group `id` is written.
    Append { id: u64, at: Pba, data: Vec<Bytes> },
    /// The same, of an append that failed.
    Again { id: u64, at: Pba, data: Vec<Bytes> },
    /// Seal the zone once its appends are done.
    Seal { zone: ZoneId },
}

pub(crate) struct OpenSegment {
    zone: ZoneId,
    incarnation: u64,
    /// First block not taken by a closed group.
    next: u32,
    groups: Vec<u32>,
    checksums: Vec<u32>,
    builder: Option<Builder>,
}

/// A group that the device has written, and may not have flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unflushed {
    pub zone: ZoneId,
    pub incarnation: u64,
    pub offset: u32,
    pub payload: u32,
}

/// The open segments, and the data on its way to the device.
pub(crate) struct Log {
    uuid: [u8; 16],
    /// The device's function for content checksums.
    checksum: fn(&[u8]) -> u32,
    pub epoch: u64,
    zone_blocks: u64,
    append_blocks_max: u32,
    /// The most zones that the device can have open at once.
    open_zones_max: usize,
    streams: Vec<Option<OpenSegment>>,
    /// Size of the last group of each stream.
    sizes: Vec<Size>,
    /// The last sequence number given out.
    pub sequence: u64,
    /// Records up to here are durable.
    pub durable: u64,
    next_group: u64,
    in_flight: BTreeMap<u64, InFlight>,
    /// The same by segment, in the order of their addresses.
    chains: Chains,
    /// Groups that the device refused, with those behind them in their segments: to be logged again
    /// in other segments.
    refused: BTreeMap<u64, Refused>,
    /// Where segments ended by a failed append, until a durable root makes it needless to say so in
    /// the log.
    cuts: BTreeMap<ZoneId, Cut>,
    /// Groups written since the last flush that worked, with the number of those written before.
    unflushed: (u64, VecDeque<Unflushed>),
    /// Segments ended so far by a failed append, or by another one ahead of it.
    pub breaks: u64,
    /// Payload that was sent but cannot be read from the device yet, by group: the key is the
    /// group's first payload block.
    pending: BTreeMap<u64, PayloadBuffers>,
    /// Bytes of payload accepted but not written.
    pub dirty_bytes: u64,
    pub outbox: Vec<Submission>,
    /// Zones that wait for their seal or are being sealed; they are not reset before.
    pub sealing: BTreeSet<ZoneId>,
    /// Checksums of segments sealed since the engine last took them.
    pub sealed: Vec<(ZoneId, Vec<u32>)>,
    /// Whether a group that a task may wait for was begun since the engine last checked.
    pub begun: bool,
    /// Blocks appended, by stream, headers included.
    pub blocks_written: Vec<u64>,
    /// Of the blocks in clients' streams: blocks that reclaim moved there, and headers of groups
    /// with only such blocks.
    pub moved_beside_clients: u64,
    /// Bytes of client log since the last checkpoint was frozen, and its records. A long record
    /// counts as several.
    pub since_checkpoint: u64,
    pub records_since_checkpoint: u64,
    /// Bytes of client log since the last flush began, not counting checkpoints' flushes.
    pub since_flush: u64,
    pub groups_total: u64,
    /// The warm log of unwritten records.
    pub kept: Kept,
}

impl Log {
    /// `streams` must not exceed the zones that the device can have open.
    pub fn new(
        info: &DeviceInfo,
        checksum: fn(&[u8]) -> u32,
        epoch: u64,
        streams: usize,
        sequence: u64,
    ) -> Self {
        let open_zones_max = info.open_zones_max.map_or(usize::MAX, |max| max as usize);
        assert!(streams <= open_zones_max, "a stream could wait for another one for ever");
        Log {
            uuid: info.uuid,
            checksum,
            epoch,
            zone_blocks: info.zone_blocks,
            append_blocks_max: info.append_blocks_max.min(1 + u64::from(GROUP_BLOCKS_MAX)) as u32,
            open_zones_max,
            streams: (0..streams).map(|_| None).collect(),
            sizes: vec![Size::default(); streams],
            sequence,
            durable: sequence,
            next_group: 1,
            in_flight: BTreeMap::new(),
            chains: Chains::default(),
            refused: BTreeMap::new(),
            cuts: BTreeMap::new(),
            unflushed: Default::default(),
            breaks: 0,
            pending: BTreeMap::new(),
            dirty_bytes: 0,
            outbox: Vec::new(),
            sealing: BTreeSet::new(),
            sealed: Vec::new(),
            begun: false,
            blocks_written: vec![0; streams],
            moved_beside_clients: 0,
            since_checkpoint: 0,
            records_since_checkpoint: 0,
            since_flush: 0,
            groups_total: 0,
            kept: Kept::default(),
        }
    }

    /// The most payload blocks in one group on this device.
    pub fn group_blocks_max(&self) -> u32 {
        (self.append_blocks_max - 1).min(GROUP_BLOCKS_MAX)
    }

    /// The groups under construction.
    fn builders(&self) -> impl Iterator<Item = &Builder> {
        self.streams.iter().flatten().filter_map(|open| open.builder.as_ref())
    }

    /// Whether a group that a task may wait for is under construction.
    pub fn is_building(&self) -> bool {
        self.builders().any(|builder| builder.awaited)
    }

    /// Bytes of payload that were sent but are not written.
    pub fn sent_bytes(&self) -> u64 {
        let built = self.builders().map(|builder| builder.checksums.len() as u64 * BLOCK_SIZE);
        self.dirty_bytes - built.sum::<u64>()
    }

    /// Counts the zone as open while it is tried, if the device may have one more open.
    pub fn begin_trial(&mut self, zone: ZoneId) -> bool {
        self.can_open_zone() && self.sealing.insert(zone)
    }

    pub fn can_open_zone(&self) -> bool {
        self.streams.iter().flatten().count() + self.sealing.len() < self.open_zones_max
    }

    /// Whether a segment can be opened only after another one's seal ends. If the device has all
    /// its zones open and none is being sealed, every stream has its segment: there are at most as
    /// many streams as open zones.
    pub fn awaits_seal(&self) -> bool {
        !self.can_open_zone() && !self.sealing.is_empty()
    }

    /// The device has written group `id`. It counts as written once all groups ahead of it in its
    /// segment are, too.
    pub fn written(&mut self, id: u64) {
        if let Some(zone) = self.in_flight.get(&id).map(|group| group.zone) {
            self.chains.done(&mut self.in_flight, id);
            self.conclude_chain(zone);
        }
    }

    /// Forgets the appends to the zone that are written with all ahead of them.
    fn conclude_chain(&mut self, zone: ZoneId) {
        while let Some(done) = self.chains.written(zone, &mut self.in_flight) {
            if let Some(payload) = done.payload {
                let (incarnation, offset) = (done.incarnation, done.offset);
                self.unflushed.1.push_back(Unflushed { zone, incarnation, offset, payload });
            }
            self.forget_payload(done.from);
        }
        if self.kept.is_on() {
            let first = self.first_unwritten();
            self.kept.forget_below(first);
        }
    }

    /// The number of groups written so far.
    pub fn written_total(&self) -> u64 {
        self.unflushed.0 + self.unflushed.1.len() as u64
    }

    /// The first `total` groups that were written are flushed.
    pub fn flushed(&mut self, total: u64) {
        let (before, groups) = &mut self.unflushed;
        let count = total.saturating_sub(*before).min(groups.len() as u64);
        groups.drain(..count as usize);
        *before += count;
    }

    /// Those of the first `total` groups that were written since the last flush that worked.
    pub fn unflushed(&self, total: u64) -> Vec<Unflushed> {
        let count = total.saturating_sub(self.unflushed.0) as usize;
        self.unflushed.1.iter().take(count).copied().collect()
    }

    /// Appends that the device has completed, and that wait for others ahead of them, are to be made
    /// again. Returns each with its address.
    pub fn undo_done(&mut self) -> Vec<(Pba, u64)> {
        let done = self.in_flight.iter_mut().filter_map(|(id, append)| {
            let at = append.zone.start(self.zone_blocks).plus(u64::from(append.offset));
            std::mem::take(&mut append.done).then_some((at, *id))
        });
        done.collect()
    }

    /// Bytes that wait to be written, but for those of the map that were refused: only the checkpoint
    /// that waits can have these written elsewhere.
    pub fn dirty_bytes_awaited(&self) -> u64 {
        self.dirty_bytes - self.refused_map_bytes()
    }

    /// The payload from this block on is not pending any more.
    fn forget_payload(&mut self, from: Pba) {
        for (_, buffer) in self.pending.remove(&from.0).unwrap_or_default() {
            self.dirty_bytes -= buffer.len() as u64;
        }
    }

    /// The lowest sequence number that is not on the device, or may not be found there by recovery.
    fn first_unwritten(&self) -> u64 {
        let sent = self.in_flight.values().map(|group| group.first_sequence);
        let refused = self.refused.values().map(|group| group.first_sequence);
        let built = self.builders().filter_map(|builder| builder.first_sequence());
        sent.chain(refused).chain(built).fold(self.sequence + 1, u64::min)
    }

    /// Whether append `id` was sent and is not written or refused.
    pub fn is_sent(&self, id: u64) -> bool {
        self.in_flight.contains_key(&id)
    }

    /// Whether group `id` is still being built or written.
    pub fn is_in_flight(&self, id: u64) -> bool {
        self.in_flight.contains_key(&id) || self.builders().any(|builder| builder.serial == id)
    }

    /// Whether a record up to `sequence` is not written yet.
    pub fn waits_for(&self, sequence: u64) -> bool {
        self.in_flight.values().any(|group| group.first_sequence <= sequence)
            || self.refused.values().any(|group| group.first_sequence <= sequence)
            || self
                .builders()
                .any(|builder| builder.records.iter().any(|(s, _)| *s != 0 && *s <= sequence))
    }

    /// The id of the newest group.
    pub fn last_group(&self) -> u64 {
        self.next_group - 1
    }

    /// Whether a group up to `id` has been sent and is not written yet.
    pub fn waits_for_group(&self, id: u64) -> bool {
        self.in_flight.range(..=id).next().is_some()
    }

    /// The same for the groups of one zone, its header and its footer.
    pub fn zone_waits_for_group(&self, zone: ZoneId, id: u64) -> bool {
        self.in_flight.range(..=id).any(|(_, group)| group.zone == zone)
    }

    /// Whether the zone has an append or its seal in flight, or memory holds payload of its
    /// addresses.
    pub fn zone_busy(&self, zone: ZoneId) -> bool {
        self.sealing.contains(&zone) || self.zone_in_flight(zone) || self.has_refused(zone)
    }

    /// Whether the zone has appends that are not written.
    pub fn zone_in_flight(&self, zone: ZoneId) -> bool {
        self.chains.has_appends(zone)
    }

    /// Pending payload at `pba`: its block and the following blocks in the same buffer (at most
    /// `blocks`).
    pub fn pending(&self, pba: Pba, blocks: u64) -> Option<Bytes> {
        let sent = self.pending.range(..=pba.0).next_back().map(|(_, buffers)| buffers);
        self.gathered().chain(sent).find_map(|buffers| {
            let before = buffers.partition_point(|(at, _)| *at <= pba.0);
            let (at, buffer) = &buffers[before.checked_sub(1)?];
            let skip = (pba.0 - at) * BLOCK_SIZE;
            let end = (skip + blocks * BLOCK_SIZE).min(buffer.len() as u64);
            (skip < end).then(|| buffer.slice(skip as usize..end as usize))
        })
    }

    /// The first pending block at or after `pba`, if `pba` itself is not pending.
    pub fn next_pending(&self, pba: Pba) -> Option<Pba> {
        let sent = self.pending.range(pba.0..).next().map(|(&at, _)| at);
        let gathered = self.gathered().filter_map(|buffers| buffers.first().map(|(at, _)| *at));
        gathered.filter(|at| *at >= pba.0).chain(sent).min().map(Pba)
    }

    /// The payload of the groups under construction.
    fn gathered(&self) -> impl Iterator<Item = &PayloadBuffers> {
        self.builders().map(|builder| &builder.payload)
    }

    /// Bytes of memory for the checksums of open segments.
    pub fn open_checksum_bytes(&self) -> u64 {
        let open = self.streams.iter().flatten();
        open.map(|open| (size_of::<u32>() * open.checksums.capacity()) as u64).sum()
    }

    /// The checksums of an open segment's blocks sent so far; `None` if the segment is not open.
    pub fn open_checksums(&self, zone: ZoneId) -> Option<&[u32]> {
        let open = self.streams.iter().flatten().find(|open| open.zone == zone)?;
        Some(&open.checksums)
    }

    /// Blocks left in the stream's open segment.
    pub fn room_blocks(&self, stream: u8) -> u64 {
        let open = self.streams.get(usize::from(stream)).and_then(Option::as_ref);
        open.map_or(0, |open| self.zone_blocks.saturating_sub(u64::from(open.next)))
    }

    /// Zones of open segments.
    pub fn open_zones(&self) -> Vec<ZoneId> {
        self.streams.iter().flatten().map(|open| open.zone).collect()
    }
}
