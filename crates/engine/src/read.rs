//! Reads: from the map to bytes that verify.

use std::ops::Range;

use bytes::Bytes;
use futures_util::future::{join, try_join_all};
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::{Chunk, Chunks, Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Lba, Pba, TreeId, ZoneId};
use smallvec::SmallVec;

use crate::checksums::Sums;
use crate::engine::{Engine, State};
use crate::fault;
use crate::format::bind;
use crate::format::segment::Footer;
use crate::read_errors::ReadPurpose;
use crate::reclaim::yield_now;
use crate::space::Segment;
use crate::write::Version;

/// Holds off the reset of a zone while its blocks are being read.
pub(crate) struct Pin<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    zone: ZoneId,
}

impl<D: Device, R: Runtime> Pin<D, R> {
    /// Pins within a borrow of the state, so that nothing can come between lookup and pin.
    pub fn new(engine: &Engine<D, R>, state: &mut State, zone: ZoneId) -> Self {
        state.space.get_mut(zone).pins += 1;
        Pin { engine: engine.clone(), zone }
    }
}

impl<D: Device, R: Runtime> Drop for Pin<D, R> {
    fn drop(&mut self) {
        let reset_wanted = {
            let mut state = self.engine.state();
            let segment = state.space.get_mut(self.zone);
            segment.pins -= 1;
            segment.pins == 0 && state.space.next_reset_wanted()
        };
        if reset_wanted {
            self.engine.inner.reset_wanted.notify(1);
        }
    }
}

/// A segment's checksums are on their way, until this is dropped.
struct Loading<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    zone: ZoneId,
}

impl<D: Device, R: Runtime> Drop for Loading<D, R> {
    fn drop(&mut self) {
        self.engine.state().checksums.end_load(self.zone);
        self.engine.notify();
    }
}

/// Runs that a read may find for which room is kept for the next one.
const RUNS_ROOM_MAX: usize = 1024;

/// Bytes after whose copying others get their turn.
const LARGE_COPY: usize = 256 << 10;

/// What a read needs: as a rule a single piece, for which nothing is allocated.
type Pieces<D, R> = SmallVec<[Piece<D, R>; 1]>;

/// A run of blocks that a read needs from the device or from memory.
enum Piece<D: Device, R: Runtime> {
    Hole(u64),
    Memory(Bytes),
    Device(Pba, u64, Pin<D, R>),
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads whole blocks of a tree.
    pub(crate) async fn read_blocks(
        &self,
        tree: TreeId,
        lba: u64,
        blocks: u64,
    ) -> Result<Chunks, Error> {
        let mut pieces = self
            .step(|state| {
                if state.map.blocks(tree).is_none_or(|size| lba + blocks > size) {
                    return Err(Error::new(
                        ErrorKind::NotFound,
                        "the volume or snapshot was deleted or shrunk during a read",
                    )
                    .into());
                }
                let mut runs = std::mem::take(&mut state.runs_room);
                runs.clear();
                let found = state.map.lookup(tree, Lba(lba), blocks, &mut runs);
                let pieces = found.map(|()| self.pieces(state, &runs));
                if runs.capacity() <= RUNS_ROOM_MAX {
                    state.runs_room = runs;
                }
                Ok(pieces?)
            })
            .await?;
        if pieces.len() == 1
            && let Some(piece) = pieces.pop()
        {
            return Ok(Chunks::from_buf([self.read_piece(piece).await?]));
        }
        try_join_all(pieces.into_iter().map(|piece| self.read_piece(piece))).await.map(Chunks::from)
    }

    /// Reads one block, and tells which version of it that is.
    pub(crate) async fn read_version(
        &self,
        tree: TreeId,
        lba: u64,
    ) -> Result<(Option<Version>, Chunk), Error> {
        let (version, piece) = self
            .step(|state| {
                let version = state.version_of(tree, lba)?;
                let pba = version.map(|version| version.pba);
                Ok((version, self.pieces(state, &[Run { blocks: 1, pba }]).pop()))
            })
            .await?;
        let piece = piece.unwrap_or(Piece::Hole(1));
        Ok((version, self.read_piece(piece).await?))
    }

    /// Of what a client reads.
    async fn read_piece(&self, piece: Piece<D, R>) -> Result<Chunk, Error> {
        Ok(match piece {
            Piece::Hole(blocks) => Chunk::Zeroes(blocks * BLOCK_SIZE),
            Piece::Memory(bytes) => {
                // Itself it would hold all of the write that it is a part of, as long as whoever asked
                // for a little of it cares to.
                let mut copy = self.buffer(bytes.len());
                copy.as_mut().copy_from_slice(&bytes);
                if copy.len() >= LARGE_COPY {
                    yield_now().await;
                }
                Chunk::Data(copy.into())
            }
            Piece::Device(pba, blocks, pin) => {
                let buffer = self.read_pinned(ReadPurpose::Client, pba, blocks).await?;
                drop(pin);
                Chunk::Data(buffer.into())
            }
        })
    }

    fn pieces(&self, state: &mut State, runs: &[Run]) -> Pieces<D, R> {
        let mut pieces = Pieces::with_capacity(runs.len());
        for run in runs {
            let Some(start) = run.pba else {
                pieces.push(Piece::Hole(run.blocks));
                continue;
            };
            let (mut at, end) = (start, start.plus(run.blocks));
            while at < end {
                if let Some(bytes) = state.log.pending(at, end.0 - at.0) {
                    at = at.plus(bytes.len() as u64 / BLOCK_SIZE);
                    pieces.push(Piece::Memory(bytes));
                    continue;
                }
                let stop = state.log.next_pending(at).map_or(end, |pending| pending.min(end));
                let zone = state.space.zone_of(at);
                let pin = Pin::new(self, state, zone);
                pieces.push(Piece::Device(at, stop.0 - at.0, pin));
                at = stop;
            }
        }
        pieces
    }

    /// Reads blocks of one segment, wherever they are, and verifies them.
    pub(crate) async fn read_verified(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        blocks: u64,
    ) -> Result<Bytes, Error> {
        let pieces = {
            let mut state = self.state();
            self.pieces(&mut state, &[Run { blocks, pba: Some(pba) }])
        };
        let mut whole: Option<AlignedBuf> = None;
        let mut filled = 0;
        let single = pieces.len() == 1;
        for piece in pieces {
            let bytes = match piece {
                Piece::Hole(_) => unreachable!("a run with an address"),
                Piece::Memory(bytes) => bytes,
                Piece::Device(at, count, _pin) => {
                    self.read_pinned(purpose, at, count).await?.freeze()
                }
            };
            if single {
                return Ok(bytes);
            }
            let buffer =
                whole.get_or_insert_with(|| AlignedBuf::zeroed((blocks * BLOCK_SIZE) as usize));
            buffer.as_mut()[filled..filled + bytes.len()].copy_from_slice(&bytes);
            filled += bytes.len();
        }
        Ok(whole.unwrap_or_else(|| AlignedBuf::zeroed(0)).freeze())
    }

    /// Reads blocks of a pinned segment from the device and verifies each.
    pub(crate) async fn read_pinned(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        blocks: u64,
    ) -> Result<AlignedBuf, Error> {
        let buffer = self.buffer((blocks * BLOCK_SIZE) as usize);
        let read = self.read_device(purpose, pba, buffer);
        let (read, few) = join(read, self.few_checksums(purpose, pba, blocks)).await;
        let buffer = read.map_err(|error| fault::device(&format!("reading {pba}"), error))?;
        self.verify(purpose, pba, buffer.as_ref(), few.as_deref(), |_| ()).await?;
        Ok(buffer)
    }

    /// The checksums of some blocks of a pinned segment, if they are not in memory: without those of all
    /// others where there is no room for all, since of many thousand a read of one block needs one.
    async fn few_checksums(&self, purpose: ReadPurpose, pba: Pba, blocks: u64) -> Option<Vec<u32>> {
        let (zone, range, at, piece, whole) = {
            let mut state = self.state();
            let zone_blocks = state.space.zone_blocks;
            let (zone, offset) = (pba.zone(zone_blocks), pba.offset(zone_blocks));
            let range = offset..offset + blocks;
            if let Some(sums) = state.checksums.peek(zone) {
                sums.prefetch(range);
                return None;
            }
            if state.log.open_checksums(zone).is_some() {
                return None;
            }
            let Segment { footer, used, .. } = *state.space.get(zone);
            if range.end > u64::from(footer) {
                return None;
            }
            let piece = Footer::piece(&range);
            let is_part = 2 * (piece.blocks.end - piece.blocks.start)
                < u64::from(used.saturating_sub(footer));
            let whole = !is_part || state.checksums.is_load_due(4 * u64::from(footer));
            let footer_at = zone.start(zone_blocks).plus(u64::from(footer));
            (zone, range, footer_at.plus(piece.blocks.start), piece, whole)
        };
        if whole {
            // Whoever else asks from now on knows that they are on their way. Seldom: not within each read.
            let loaded = Box::pin(self.load_checksums(purpose, zone)).await.ok()?;
            return loaded.get(range).map(<[u32]>::to_vec);
        }
        self.settle_zone(zone).await;
        let blocks = piece.blocks.end - piece.blocks.start;
        let buffer = self.buffer((blocks * BLOCK_SIZE) as usize);
        let read = self.read_device(purpose, at, buffer).await.ok()?;
        piece.checksums(read.as_ref())
    }

    /// Compares what was read from `pba` on, within one pinned segment, with its checksums. If it
    /// succeeds, `content` was told the checksum of each block's content, which is the same wherever it
    /// lies. `content` is called while the state is in use. `few` are checksums for which nothing may vouch:
    /// if they do not match, others decide.
    pub(crate) async fn verify(
        &self,
        purpose: ReadPurpose,
        pba: Pba,
        bytes: &[u8],
        few: Option<&[u32]>,
        mut content: impl FnMut(u32),
    ) -> Result<(), Error> {
        let sum = self.device().block_checksum();
        let zone_blocks = self.state().space.zone_blocks;
        let (zone, offset) = (pba.zone(zone_blocks), pba.offset(zone_blocks));
        let range = offset..offset + bytes.len() as u64 / BLOCK_SIZE;
        let incarnation = self.state().space.get(zone).incarnation;
        // The first block that is not what was written.
        let mut compare = |expected: &[u32]| {
            assert_eq!(expected.len(), bytes.len() / BLOCK_BYTES, "each block is verified");
            let places = (0..).map(|index| pba.plus(index));
            let blocks = places.zip(expected).map(|(at, sum)| (at, sum ^ bind(at, incarnation)));
            let wrong = blocks
                .clone()
                .zip(bytes.chunks_exact(BLOCK_BYTES))
                .find(|((_, expected), block)| sum(block) != *expected)
                .map(|((at, _), _)| at);
            if wrong.is_none() {
                blocks.for_each(|(_, expected)| content(expected));
            }
            wrong
        };
        let compared = self.state().checksums_of(zone, range.clone()).map(&mut compare);
        let wrong = match compared {
            Some(wrong) => wrong,
            None if few.is_some_and(|few| compare(few).is_none()) => None,
            None => {
                // Out of what is loaded, which memory may have no room to keep.
                let loaded = self.load_checksums(purpose, zone).await?;
                let expected = loaded.get(range).ok_or_else(|| {
                    fault::damaged(format!(
                        "{pba} (segment {}) has no checksum: it was never written",
                        zone.0
                    ))
                })?;
                compare(expected)
            }
        };
        wrong.map_or(Ok(()), |at| {
            if self.device().missing_from().is_some_and(|from| at >= from) {
                let what = format!(
                    "{at} (segment {}) is missing: the medium ends before it, and is shorter than it was",
                    zone.0
                );
                self.note_mismatch(purpose, at, &what);
                return Err(fault::damaged(what));
            }
            let what = format!(
                "{at} (segment {}) does not match its checksum: the medium returned other bytes \
                 than were written",
                zone.0
            );
            self.note_mismatch(purpose, at, &what);
            Err(fault::damaged(what + fault::SCRUB))
        })
    }

    /// A sealed segment's checksums: out of memory, from its footer, or from its groups.
    pub(crate) async fn load_checksums(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
    ) -> Result<Sums, Error> {
        if let Some(held) = self.state().checksums.get(zone) {
            return Ok(held.clone());
        }
        // Whoever comes while they are on their way waits for them.
        while !self.state().checksums.begin_load(zone) {
            self.wait_while(|state| state.checksums.is_loading(zone)).await;
            if let Some(loaded) = self.state().checksums.get(zone) {
                return Ok(loaded.clone());
            }
        }
        let _loading = Loading { engine: self.clone(), zone };
        self.read_checksums(purpose, zone).await
    }

    async fn read_checksums(&self, purpose: ReadPurpose, zone: ZoneId) -> Result<Sums, Error> {
        let (segment, info, _pin) = {
            let mut state = self.state();
            let pin = Pin::new(self, &mut state, zone);
            (state.space.get(zone).clone(), state.info.clone(), pin)
        };
        self.settle_zone(zone).await;
        let start = zone.start(info.zone_blocks);
        if segment.footer != 0 && segment.footer < segment.used {
            let blocks = u64::from(segment.used - segment.footer);
            let mut buffer = Vec::new();
            let mut at = 0;
            while at < blocks {
                let count = (blocks - at).min(info.append_blocks_max);
                let from = start.plus(u64::from(segment.footer) + at);
                let piece = self.buffer((count * BLOCK_SIZE) as usize);
                let Ok(piece) = self.read_device(purpose, from, piece).await else { break };
                buffer.extend_from_slice(piece.as_ref());
                at += count;
            }
            match Footer::decode(&buffer) {
                Ok(footer) if footer.incarnation == segment.incarnation => {
                    return Ok(self.keep_checksums(zone, footer.checksums));
                }
                // What was read is not what was written; its groups have the same to tell.
                _ if at == blocks => {
                    let footer_at = start.plus(u64::from(segment.footer));
                    let what =
                        format!("the footer of segment {} (at {footer_at}) is damaged", zone.0);
                    self.note_mismatch(purpose, footer_at, what);
                }
                _ => {}
            }
        }
        let end = if segment.footer != 0 { segment.footer } else { segment.used };
        let groups = self.walk_groups(purpose, zone, segment.incarnation, u64::from(end)).await?;
        let mut values = vec![0; end as usize];
        for header in &groups {
            let first = header.offset as usize + 1;
            if let Some(room) = values.get_mut(first..first + header.checksums.len()) {
                room.copy_from_slice(&header.checksums);
            }
        }
        Ok(self.keep_checksums(zone, values))
    }

    /// Waits until what was sent to a zone so far is on the device: headers and footers are read from
    /// there alone.
    pub(crate) async fn settle_zone(&self, zone: ZoneId) {
        let last = self.state().log.last_group();
        self.wait_while(|state| {
            state.failed.is_none() && state.log.zone_waits_for_group(zone, last)
        })
        .await;
    }

    fn keep_checksums(&self, zone: ZoneId, values: Vec<u32>) -> Sums {
        let mut state = self.state();
        let kept = state.checksums.insert(zone, values);
        state.keep_within(&self.inner.options);
        kept
    }
}

impl State {
    /// The checksums of some blocks of a segment, if they are in memory.
    fn checksums_of(&mut self, zone: ZoneId, range: Range<u64>) -> Option<&[u32]> {
        if let Some(open) = self.log.open_checksums(zone)
            && let Some(sums) = open.get(range.start as usize..range.end as usize)
        {
            return Some(sums);
        }
        self.checksums.get(zone)?.get(range)
    }
}
