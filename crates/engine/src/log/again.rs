//! Groups that the device refused, and how they are logged again.
//!
//! An append that fails ends its segment ahead of it. The groups from there on are *refused*: those
//! that failed, those behind them, and the one that was being built. Their records are logged again
//! in another segment, under the same numbers, and the map is repointed to the new addresses
//! (`drive/again.rs`). Until then their payload stays pending, and flushes wait for them.
//!
//! What was refused may have reached the device all the same. So the log says where the segment
//! ends, with a record of its own: a *cut*. Recovery takes nothing from the segment behind it.

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::format::group::FIXED_BYTES;
use crate::format::record::Record;
use crate::log::builder::PayloadBuffers;
use crate::log::chains::InFlight;
use crate::log::{Log, NoFreeSegment, Submission};
use crate::space::{Claim, MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM, Space};

/// Where payload went: its first block before, its blocks, and its first block now.
pub(crate) type Moves = Vec<(Pba, u64, Pba)>;

/// A group to be logged again.
pub(crate) struct Refused {
    pub zone: ZoneId,
    pub stream: u8,
    /// Lowest sequence number in the group, as in [`InFlight`].
    pub(super) first_sequence: u64,
    /// First block of the payload.
    from: Pba,
    records: Vec<(u64, Record)>,
    /// Whether its records are logged again already.
    logged: bool,
}

/// Where a segment ended by a failed append.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    incarnation: u64,
    /// Nothing counts from this block on.
    block: u32,
    /// The number of breaks up to this one.
    breaks: u64,
}

/// The most cuts in one header.
const CUTS_A_GROUP: usize = 128;

impl Log {
    /// The device has ended an append to the zone, well or not.
    pub fn completed(&mut self, zone: ZoneId) {
        self.chains.completed(zone);
    }

    /// An append that failed, to be made again at its place; `None` if its segment has ended ahead of
    /// it meanwhile.
    pub fn repeat(&mut self, id: u64) -> Option<Submission> {
        let append = self.in_flight.get(&id)?;
        let at = append.zone.start(self.zone_blocks).plus(u64::from(append.offset));
        let mut data = vec![append.head.clone()];
        if append.payload.is_some() {
            let payload = self.pending.get(&append.from.0).into_iter().flatten();
            data.extend(payload.map(|(_, buffer)| buffer.clone()));
        }
        self.chains.sent_again(append.zone);
        Some(Submission::Again { id, at, data })
    }

    /// Whether the zone has groups to be logged again.
    pub fn has_refused(&self, zone: ZoneId) -> bool {
        self.refused.values().any(|group| group.zone == zone)
    }

    /// Whether a group of clients' or relief's streams is to be logged again, or the map refers to
    /// one that was.
    pub fn is_any_record_refused(&self) -> bool {
        self.refused.values().any(|group| group.stream != MAP_STREAM)
    }

    /// The device refused append `id`: the segment ends ahead of it. Does nothing if the segment has
    /// ended before it already.
    pub fn refuse(&mut self, space: &mut Space, id: u64) {
        let Some(append) = self.in_flight.get(&id) else { return };
        let (zone, from) = (append.zone, append.offset);
        let stream = space.get(zone).stream;
        let incarnation = space.get(zone).incarnation;
        let mut refused = self.chains.cut(zone, &mut self.in_flight, from);
        refused.extend(self.end_open_segment(space, zone, from));
        self.breaks += 1;
        if from == 0 {
            space.note_unopened();
        }
        let payload: u32 = refused.iter().filter_map(|(_, append)| append.payload).sum();
        space.break_off(zone, from, payload, self.sequence);
        if stream > RECLAIM_STREAM {
            let breaks = self.breaks;
            let before = self.cuts.get(&zone).map_or(from, |cut| cut.block);
            let block = from.min(before);
            self.cuts.insert(zone, Cut { incarnation, block, breaks });
            // The cut itself. Every flush waits for it: without it, recovery could take what is
            // unreadable behind it for damage.
            let id = self.next_group;
            self.next_group += 1;
            let at = zone.start(self.zone_blocks).plus(u64::from(from));
            refused.push((
                id,
                InFlight::group((zone, incarnation), from, 0, at, Vec::new(), 0, Bytes::new()),
            ));
        }
        for (id, append) in refused {
            self.note_refused(id, append, stream);
        }
        if !self.has_refused(zone) {
            space.give_up_empty(zone);
        }
    }

    /// Ends the segment, if a stream has it open. Returns the group that was being built.
    fn end_open_segment(
        &mut self,
        space: &mut Space,
        zone: ZoneId,
        from: u32,
    ) -> Option<(u64, InFlight)> {
        let is_it = |open: &&mut Option<_>| {
            open.as_ref().is_some_and(|open: &crate::log::OpenSegment| open.zone == zone)
        };
        let open = self.streams.iter_mut().find(is_it)?.take()?;
        let mut checksums = open.checksums;
        checksums.truncate(from as usize);
        space.note_ended(zone);
        self.sealing.insert(zone);
        self.outbox.push(Submission::Seal { zone });
        self.sealed.push((zone, checksums));
        let builder = open.builder?;
        let at = zone.start(self.zone_blocks).plus(u64::from(builder.offset) + 1);
        let first_sequence = builder.first_sequence().unwrap_or(u64::MAX);
        if let Some((first, _)) = builder.payload.first() {
            self.pending.insert(*first, builder.payload);
        }
        // It was not counted in the segment yet.
        let group = InFlight::group(
            (zone, open.incarnation),
            builder.offset,
            first_sequence,
            at,
            builder.records,
            0,
            Bytes::new(),
        );
        Some((builder.serial, group))
    }

    /// Keeps what must be logged again, and forgets the rest: what reclaim moved still lies where it
    /// came from, and headers and footers are made anew.
    fn note_refused(&mut self, id: u64, append: InFlight, stream: u8) {
        let InFlight { zone, first_sequence, from, mut records, payload, .. } = append;
        if stream == RECLAIM_STREAM || payload.is_none() {
            self.forget_payload(from);
            return;
        }
        if stream != MAP_STREAM {
            self.drop_moved(from, &mut records);
            // The cut's own entry has none.
            if records.is_empty() && first_sequence != 0 {
                self.forget_payload(from);
                return;
            }
        }
        let group = Refused { zone, stream, first_sequence, from, records, logged: false };
        self.refused.insert(id, group);
    }

    /// Drops the records of blocks that reclaim moved, and their payload.
    fn drop_moved(&mut self, from: Pba, records: &mut Vec<(u64, Record)>) {
        let Some(buffers) = self.pending.remove(&from.0) else {
            records.retain(|(_, record)| !matches!(record, Record::Moved { .. }));
            return;
        };
        let mut buffers = buffers.into_iter();
        let mut kept = PayloadBuffers::new();
        records.retain(|(_, record)| {
            let buffer = (record.payload_blocks() > 0).then(|| buffers.next()).flatten();
            let is_moved = matches!(record, Record::Moved { .. });
            match buffer {
                Some((_, buffer)) if is_moved => self.dirty_bytes -= buffer.len() as u64,
                Some(buffer) => kept.push(buffer),
                None => {}
            }
            !is_moved
        });
        if !kept.is_empty() {
            self.pending.insert(from.0, kept);
        }
    }

    /// The streams in which a refused group may be logged again: its own, and if no segment is free for
    /// that, others that have one open. Not reclaim's: what fails there is not logged again.
    pub fn streams_for_refused(&self, id: u64) -> Vec<u8> {
        let own = self.refused.get(&id).map_or(RELIEF_STREAM, |group| group.stream);
        let open = (RELIEF_STREAM..self.streams.len() as u8)
            .filter(|stream| *stream != own && self.streams[usize::from(*stream)].is_some());
        std::iter::once(own).chain(open).collect()
    }

    /// The groups of records that are to be logged again, in the order of their numbers.
    pub fn refused_records(&self) -> Vec<u64> {
        let records = self.refused.iter().filter(|(_, group)| group.stream != MAP_STREAM);
        records.map(|(id, _)| *id).collect()
    }

    /// Says in `stream` where segments ended, in groups of their own ahead of what is logged again.
    /// Flushes wait for them.
    pub fn log_cuts(&mut self, space: &mut Space, stream: u8) -> Result<(), NoFreeSegment> {
        let cuts: Vec<Record> = self
            .cuts
            .iter()
            .map(|(zone, cut)| Record::Cut {
                zone: *zone,
                incarnation: cut.incarnation,
                block: cut.block,
            })
            .collect();
        for cuts in cuts.chunks(CUTS_A_GROUP) {
            self.close_group(space, stream);
            let bytes = cuts.iter().map(Record::encoded_bytes).sum();
            self.allocate_as(Claim::Again, space, stream, bytes, 0)?;
            for cut in cuts {
                self.push(stream, cut.clone(), Bytes::new(), cut.encoded_bytes());
            }
            self.close_group(space, stream);
            self.await_stream(stream, 0);
        }
        Ok(())
    }

    /// Logs the records of a refused group again in `stream`, as a group of their own. Returns where its payload
    /// went; the old addresses stay pending until [`forget_refused`](Self::forget_refused).
    pub fn log_again(
        &mut self,
        space: &mut Space,
        id: u64,
        stream: u8,
    ) -> Result<Moves, NoFreeSegment> {
        let mut moves = Moves::new();
        let Some(group) = self.refused.get(&id) else { return Ok(moves) };
        let (first_sequence, from) = (group.first_sequence, group.from);
        let records = group.records.clone();
        if !records.is_empty() {
            let bytes: usize = records.iter().map(|(_, record)| record.encoded_bytes()).sum();
            let blocks: u64 = records.iter().map(|(_, record)| record.payload_blocks()).sum();
            self.close_group(space, stream);
            self.allocate_whole(space, stream, bytes, blocks as u32)?;
            let mut buffers = self.pending.get(&from.0).cloned().unwrap_or_default().into_iter();
            for (sequence, record) in records {
                let payload = (record.payload_blocks() > 0).then(|| buffers.next()).flatten();
                let old = payload.as_ref().map(|(at, _)| Pba(*at));
                let payload = payload.map_or_else(Bytes::new, |(_, payload)| payload);
                let blocks = payload.len() as u64 / BLOCK_SIZE;
                let new = self.push_again(stream, sequence, record, payload);
                moves.extend(old.map(|old| (old, blocks, new)));
            }
            self.close_group(space, stream);
            self.await_stream(stream, first_sequence);
        }
        self.refused.get_mut(&id).expect("it is there").logged = true;
        Ok(moves)
    }

    /// Room for a group of so many blocks in one piece, with nothing else in it.
    fn allocate_whole(
        &mut self,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(), NoFreeSegment> {
        debug_assert!(FIXED_BYTES + record_bytes + 4 * blocks as usize <= BLOCK_BYTES);
        loop {
            let (_, fit) = self.allocate_as(Claim::Again, space, stream, record_bytes, blocks)?;
            if fit == blocks {
                return Ok(());
            }
            self.seal_segment(space, stream);
        }
    }

    /// Flushes up to `sequence` or a later number wait for all that was sent to the stream's segment:
    /// recovery finds what is logged again behind it.
    fn await_stream(&mut self, stream: u8, sequence: u64) {
        let Some(zone) = self.streams[usize::from(stream)].as_ref().map(|open| open.zone) else {
            return;
        };
        for append in self.in_flight.values_mut().filter(|append| append.zone == zone) {
            append.first_sequence = append.first_sequence.min(sequence);
        }
    }

    /// Nothing refers to the addresses of these groups any more: their payload is pending at its new
    /// addresses alone.
    pub fn forget_refused(&mut self, space: &mut Space, ids: &[u64]) {
        for id in ids {
            let Some(group) = self.refused.remove(id) else { continue };
            debug_assert!(group.logged || group.stream == MAP_STREAM);
            self.forget_payload(group.from);
            if !self.has_refused(group.zone) {
                space.give_up_empty(group.zone);
            }
        }
        if self.kept.is_on() {
            let first = self.first_unwritten();
            self.kept.forget_below(first);
        }
    }

    /// Bytes of payload of refused groups of the map.
    pub(super) fn refused_map_bytes(&self) -> u64 {
        let of_map = self.refused.values().filter(|group| group.stream == MAP_STREAM);
        let buffers = of_map.filter_map(|group| self.pending.get(&group.from.0)).flatten();
        buffers.map(|(_, buffer)| buffer.len() as u64).sum()
    }

    /// The refused groups of the map, and the part of its segment from which on each zone is refused.
    pub fn refused_of_map(&self) -> Vec<(u64, ZoneId)> {
        let of_map = self.refused.iter().filter(|(_, group)| group.stream == MAP_STREAM);
        of_map.map(|(id, group)| (*id, group.zone)).collect()
    }

    /// A root is durable that needs no cut of the first `breaks` breaks.
    pub fn forget_cuts(&mut self, breaks: u64) {
        self.cuts.retain(|_, cut| cut.breaks > breaks);
    }
}
