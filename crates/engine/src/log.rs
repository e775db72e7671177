//! The log: groups of records and payload, appended to open segments.
//!
//! A group is built in memory: one header block (records and checksums) before its payload, which
//! is never copied. Its place is fixed when it is begun, so a block's address is known, and mapped,
//! the moment it is accepted; until the append completes, reads are served from the group.
//!
//! Everything here is synchronous. What must be written collects in the outbox, in order; the
//! engine hands it to the device at the end of each step.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mjolnir_device::DeviceInfo;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::format::bind;
use crate::format::group::{FIXED_BYTES, GroupHeader};
use crate::format::record::Record;
use crate::format::segment::{Footer, SegmentHeader};
use crate::kept::{Kept, fold};
use crate::space::{Claim, RECLAIM_STREAM, Space};

/// The most payload blocks in a group: 1 MiB. Each group costs a header, a word of the map and a slot
/// of checksums; more would keep a flush of small writes waiting for longer.
pub(crate) const GROUP_BLOCKS_MAX: u32 = 256;

/// Bytes in a header that the record of a trim or write keeps below.
const USUAL_RECORD_BYTES: u64 = 64;

/// No segment can be opened for this stream now.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// Something for the device to do.
pub(crate) enum Submission {
    /// Append `data` at `at`, then tell the log that group `id` is written.
    Append { id: u64, at: Pba, data: Vec<Bytes> },
    /// Seal the zone once its appends are done.
    Seal { zone: ZoneId },
}

/// Payload that follows one another, each piece with its first block.
type Pieces = Vec<(u64, Bytes)>;

struct Builder {
    offset: u32,
    /// Where it must end: behind it lies the footer.
    limit: u32,
    records: Vec<(u64, Record)>,
    record_bytes: usize,
    checksums: Vec<u32>,
    payload: Pieces,
    serial: u64,
    /// Somebody may wait for it: it holds numbered records, or blocks of the map. Reclaim sends
    /// what it moved itself, in full: short groups would fill segments with headers.
    awaited: bool,
    /// Payload blocks that reclaim moved.
    moved_blocks: u32,
}

impl Builder {
    /// An empty group in front of block `limit`, with room for one like `last`.
    fn new(offset: u32, limit: u32, serial: u64, last: Size) -> Self {
        Builder {
            offset,
            limit,
            records: Vec::with_capacity(last.records),
            record_bytes: 0,
            checksums: Vec::with_capacity(last.blocks),
            payload: Vec::with_capacity(last.pieces),
            serial,
            awaited: false,
            moved_blocks: 0,
        }
    }

    fn first_sequence(&self) -> Option<u64> {
        self.records.iter().map(|(sequence, _)| *sequence).find(|sequence| *sequence != 0)
    }

    fn size(&self) -> Size {
        Size {
            records: self.records.len(),
            blocks: self.checksums.len(),
            pieces: self.payload.len(),
        }
    }
}

/// What a group holds: the next one of its stream will hold about as much, or again as one before.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    records: usize,
    blocks: usize,
    pieces: usize,
}

impl Size {
    /// Short ones come in between, such as the last of a victim.
    fn or_three_quarters_of(self, last: Size) -> Size {
        let most = |now: usize, last: usize| now.max(last * 3 / 4);
        Size {
            records: most(self.records, last.records),
            blocks: most(self.blocks, last.blocks),
            pieces: most(self.pieces, last.pieces),
        }
    }
}

struct OpenSegment {
    zone: ZoneId,
    incarnation: u64,
    /// First block not taken by a closed group.
    next: u32,
    groups: Vec<u32>,
    checksums: Vec<u32>,
    builder: Option<Builder>,
}

/// A group that the device has not finished writing.
struct InFlight {
    zone: ZoneId,
    /// Lowest sequence number in it; flushes up to that wait for it.
    first_sequence: u64,
    /// Where the payload begins that is not pending any more once it is written.
    from: Pba,
}

/// The open segments, and what is on its way to the device.
pub(crate) struct Log {
    uuid: [u8; 16],
    /// What the device has its blocks' content summed with.
    checksum: fn(&[u8]) -> u32,
    pub epoch: u64,
    zone_blocks: u64,
    append_blocks_max: u32,
    /// Zones that the device can have open at once.
    open_zones_max: usize,
    streams: Vec<Option<OpenSegment>>,
    /// The last group of each stream.
    sizes: Vec<Size>,
    /// The last sequence number given out.
    pub sequence: u64,
    /// Records up to here are durable.
    pub durable: u64,
    next_group: u64,
    in_flight: BTreeMap<u64, InFlight>,
    /// Payload that was sent and cannot be read from the device yet: that of each group, by its
    /// first block.
    pending: BTreeMap<u64, Pieces>,
    /// Bytes of payload accepted and not written.
    pub dirty_bytes: u64,
    pub outbox: Vec<Submission>,
    /// Zones that are to be sealed, or are being sealed: not to be reset before.
    pub sealing: BTreeSet<ZoneId>,
    /// Checksums of segments that were sealed since the engine last looked.
    pub sealed: Vec<(ZoneId, Vec<u32>)>,
    /// Whether a group was begun that somebody may wait for, since the engine last looked.
    pub begun: bool,
    /// Blocks appended, by stream, headers included.
    pub blocks_written: Vec<u64>,
    /// Of those in clients' streams, blocks that reclaim moved there, and the headers of groups
    /// that hold nothing else.
    pub moved_beside_clients: u64,
    /// Bytes of client log since the last checkpoint was frozen, and its records; a long one counts for
    /// several.
    pub since_checkpoint: u64,
    pub records_since_checkpoint: u64,
    /// The same since the last flush began, a checkpoint's aside.
    pub since_flush: u64,
    pub groups_total: u64,
    /// What survives the process of what is not written yet.
    pub kept: Kept,
}

impl Log {
    /// `streams` must be fewer than the zones that the device can have open, or as many.
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

    /// The most payload blocks in one group here.
    pub fn group_blocks_max(&self) -> u32 {
        (self.append_blocks_max - 1).min(GROUP_BLOCKS_MAX)
    }

    /// Makes room in `stream` for a record of `record_bytes` and up to `blocks` payload blocks.
    /// Returns where the payload will lie and how many of the blocks fit (all or some; none only
    /// if none were asked for). What is returned holds until the next call.
    pub fn prepare(
        &mut self,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(Pba, u32), NoRoom> {
        self.prepare_as(Claim::of_stream(stream), space, stream, record_bytes, blocks)
    }

    /// As [`prepare`](Self::prepare), where a segment is opened only if `claim` allows.
    pub fn prepare_as(
        &mut self,
        claim: Claim,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(Pba, u32), NoRoom> {
        let most = self.group_blocks_max();
        loop {
            let Some(open) = &mut self.streams[usize::from(stream)] else {
                self.open_segment(claim, space, stream)?;
                continue;
            };
            let least = blocks.min(1);
            if let Some(builder) = &open.builder {
                let taken = builder.checksums.len() as u32;
                let header = FIXED_BYTES + builder.record_bytes + 4 * builder.checksums.len();
                let free_bytes = BLOCK_BYTES.saturating_sub(header + record_bytes) / 4;
                let free_blocks = (builder.limit.saturating_sub(builder.offset + 1 + taken))
                    .min(most.saturating_sub(taken))
                    .min(free_bytes as u32);
                if header + record_bytes <= BLOCK_BYTES && free_blocks >= least {
                    let at = open
                        .zone
                        .start(self.zone_blocks)
                        .plus(u64::from(builder.offset) + 1 + u64::from(taken));
                    if self.kept.is_on() {
                        self.kept.follow_room(space);
                    }
                    return Ok((at, blocks.min(free_blocks)));
                }
                self.close_group(space, stream);
                continue;
            }
            let footer = Footer::blocks(self.zone_blocks, open.groups.len() + 1) as u32;
            let limit = self.zone_blocks as u32 - footer;
            if open.next + 1 + least.max(1) > limit {
                self.seal_segment(space, stream);
                continue;
            }
            let last = self.sizes[usize::from(stream)];
            open.builder = Some(Builder::new(open.next, limit, self.next_group, last));
            self.next_group += 1;
        }
    }

    /// Adds a record with its payload, if it has some, where [`prepare`](Self::prepare) said. It gets
    /// the next sequence number, if it has any. Returns the group's id.
    pub fn push(&mut self, stream: u8, record: Record, payload: Bytes, record_bytes: usize) -> u64 {
        self.push_known(stream, record, payload, &[], record_bytes)
    }

    /// As [`push`](Self::push), with the checksums of the content of the first blocks, for those
    /// that were just read and verified.
    pub fn push_known(
        &mut self,
        stream: u8,
        record: Record,
        payload: Bytes,
        content: &[u32],
        record_bytes: usize,
    ) -> u64 {
        let sequenced = record.is_sequenced();
        let (zone_blocks, checksum) = (self.zone_blocks, self.checksum);
        let open = self.streams[usize::from(stream)].as_mut().expect("prepared");
        let builder = open.builder.as_mut().expect("prepared");
        let mut at = open
            .zone
            .start(zone_blocks)
            .plus(u64::from(builder.offset) + 1 + builder.checksums.len() as u64);
        let (first, bytes) = (at.0, payload.len() as u64);
        let mut known = content.iter().copied();
        let mut sum = 0;
        for block in payload.chunks_exact(BLOCK_BYTES) {
            let content = known.next().unwrap_or_else(|| checksum(block));
            builder.checksums.push(content ^ bind(at, open.incarnation));
            sum = fold(sum, content);
            at = at.plus(1);
        }
        if sequenced && self.kept.is_on() {
            self.kept.note(self.sequence + 1, &record, &payload, sum);
        }
        if bytes > 0 {
            builder.payload.push((first, payload));
        }
        self.dirty_bytes += bytes;
        let sequence = if sequenced {
            self.sequence += 1;
            let bytes = bytes + 64;
            self.since_checkpoint += bytes;
            self.records_since_checkpoint += 1 + record_bytes as u64 / USUAL_RECORD_BYTES;
            self.since_flush += bytes;
            self.sequence
        } else {
            0
        };
        builder.record_bytes += record_bytes;
        self.begun |= sequenced && !builder.awaited;
        builder.awaited |= sequenced;
        if let Record::Moved { blocks, .. } = record {
            builder.moved_blocks += blocks;
        }
        builder.records.push((sequence, record));
        builder.serial
    }

    /// Adds payload without a record (the map's blocks).
    pub fn push_bare(&mut self, stream: u8, payload: Bytes) -> u64 {
        let (zone_blocks, checksum) = (self.zone_blocks, self.checksum);
        let open = self.streams[usize::from(stream)].as_mut().expect("prepared");
        let builder = open.builder.as_mut().expect("prepared");
        let mut at = open
            .zone
            .start(zone_blocks)
            .plus(u64::from(builder.offset) + 1 + builder.checksums.len() as u64);
        let first = at.0;
        for block in payload.chunks_exact(BLOCK_BYTES) {
            builder.checksums.push(checksum(block) ^ bind(at, open.incarnation));
            at = at.plus(1);
        }
        self.dirty_bytes += payload.len() as u64;
        self.begun |= !builder.awaited;
        builder.awaited = true;
        builder.payload.push((first, payload));
        builder.serial
    }

    /// The groups that are being built.
    fn builders(&self) -> impl Iterator<Item = &Builder> {
        self.streams.iter().flatten().filter_map(|open| open.builder.as_ref())
    }

    /// Whether a group is being built that somebody may wait for.
    pub fn is_building(&self) -> bool {
        self.builders().any(|builder| builder.awaited)
    }

    /// Bytes of payload that were sent and are not written.
    pub fn sent_bytes(&self) -> u64 {
        let built = self.builders().map(|builder| builder.checksums.len() as u64 * BLOCK_SIZE);
        self.dirty_bytes - built.sum::<u64>()
    }

    /// Sends those that were begun up to group `id`, if somebody may wait for them.
    pub fn close_logged_groups_to(&mut self, space: &mut Space, id: u64) {
        self.close_groups_where(space, |builder| builder.awaited && builder.serial <= id);
    }

    /// Sends the group that is being built, if it holds anything.
    pub fn close_group(&mut self, space: &mut Space, stream: u8) {
        let Some(open) = &mut self.streams[usize::from(stream)] else { return };
        let Some(builder) = open.builder.take() else { return };
        if builder.records.is_empty() && builder.payload.is_empty() {
            return;
        }
        let size = &mut self.sizes[usize::from(stream)];
        *size = builder.size().or_three_quarters_of(*size);
        let header = GroupHeader {
            uuid: self.uuid,
            zone: open.zone,
            offset: builder.offset,
            incarnation: open.incarnation,
            epoch: self.epoch,
            durable: self.durable,
            checksums: builder.checksums,
            records: builder.records,
        };
        let blocks = header.checksums.len() as u32;
        open.groups.push(builder.offset);
        let needed = builder.offset as usize + 1 + header.checksums.len();
        if needed > open.checksums.capacity() {
            // Doubled, they would have room for a segment that is never filled.
            let room = needed.next_multiple_of((self.zone_blocks / 16).max(1) as usize);
            open.checksums.reserve_exact(room - open.checksums.len());
        }
        open.checksums.resize(builder.offset as usize + 1, 0);
        open.checksums.extend_from_slice(&header.checksums);
        open.next = builder.offset + 1 + blocks;
        let segment = space.get_mut(open.zone);
        segment.used = open.next;
        segment.payload += blocks;
        let at = open.zone.start(self.zone_blocks).plus(u64::from(builder.offset));
        let mut data = Vec::with_capacity(1 + builder.payload.len());
        data.push(aligned(&header.encode()));
        data.extend(builder.payload.iter().map(|(_, piece)| piece.clone()));
        if let Some((first, _)) = builder.payload.first() {
            self.pending.insert(*first, builder.payload);
        }
        // A group of moved blocks among clients' has no record that a flush is for, but whatever is
        // logged from now on may lie behind it: were it lost, that would not be found.
        let none = if stream > RECLAIM_STREAM { self.sequence + 1 } else { u64::MAX };
        let sequences = header.records.iter().map(|(s, _)| *s).filter(|s| *s != 0);
        let first_sequence = sequences.min().unwrap_or(none);
        self.in_flight
            .insert(builder.serial, InFlight { zone: open.zone, first_sequence, from: at.plus(1) });
        self.blocks_written[usize::from(stream)] += 1 + u64::from(blocks);
        if stream != RECLAIM_STREAM {
            self.moved_beside_clients +=
                u64::from(builder.moved_blocks) + u64::from(!builder.awaited);
        }
        self.groups_total += 1;
        self.outbox.push(Submission::Append { id: builder.serial, at, data });
    }

    /// Sends every group that is being built and holds sequenced records, or what a checkpoint
    /// needs.
    pub fn close_logged_groups(&mut self, space: &mut Space) {
        self.close_logged_groups_to(space, u64::MAX);
    }

    /// Sends every group that is being built and holds what reclaim moved.
    pub fn close_moved_groups(&mut self, space: &mut Space) {
        self.close_groups_where(space, |builder| builder.moved_blocks > 0);
    }

    fn close_groups_where(&mut self, space: &mut Space, due: impl Fn(&Builder) -> bool) {
        for stream in 0..self.streams.len() as u8 {
            let open = self.streams[usize::from(stream)].as_ref();
            if open.and_then(|open| open.builder.as_ref()).is_some_and(&due) {
                self.close_group(space, stream);
            }
        }
    }

    /// Sends every group that is being built.
    pub fn close_groups(&mut self, space: &mut Space) {
        for stream in 0..self.streams.len() as u8 {
            self.close_group(space, stream);
        }
    }

    /// Ends the stream's open segment: footer, then seal.
    pub fn seal_segment(&mut self, space: &mut Space, stream: u8) {
        self.close_group(space, stream);
        let Some(open) = self.streams[usize::from(stream)].take() else { return };
        let footer = Footer {
            incarnation: open.incarnation,
            checksums: open.checksums.clone(),
            groups: open.groups,
        };
        let bytes = footer.encode();
        let blocks = (bytes.len() / BLOCK_BYTES) as u32;
        let sequence = self.sequence;
        space.seal(open.zone, open.next, blocks, sequence);
        let mut at = open.zone.start(self.zone_blocks).plus(u64::from(open.next));
        let piece_bytes = self.append_blocks_max as usize * BLOCK_BYTES;
        for piece in bytes.chunks(piece_bytes) {
            let id = self.next_group;
            self.next_group += 1;
            self.in_flight
                .insert(id, InFlight { zone: open.zone, first_sequence: u64::MAX, from: at });
            self.outbox.push(Submission::Append { id, at, data: vec![aligned(piece)] });
            at = at.plus((piece.len() / BLOCK_BYTES) as u64);
        }
        self.blocks_written[usize::from(stream)] += u64::from(blocks);
        self.sealing.insert(open.zone);
        self.outbox.push(Submission::Seal { zone: open.zone });
        self.sealed.push((open.zone, open.checksums));
    }

    fn can_open_zone(&self) -> bool {
        self.streams.iter().flatten().count() + self.sealing.len() < self.open_zones_max
    }

    /// Whether a segment cannot be opened before another one's seal ends. Where the device can have
    /// no more zones open and none is being sealed, every stream has its segment: there are no more
    /// streams than zones that may be open.
    pub fn awaits_seal(&self) -> bool {
        !self.can_open_zone() && !self.sealing.is_empty()
    }

    fn open_segment(&mut self, claim: Claim, space: &mut Space, stream: u8) -> Result<(), NoRoom> {
        if !self.can_open_zone() {
            return Err(NoRoom);
        }
        let (zone, incarnation) = space.open(claim, stream).ok_or(NoRoom)?;
        space.get_mut(zone).opened = Some(self.sequence);
        let header =
            SegmentHeader { uuid: self.uuid, zone, incarnation, epoch: self.epoch, stream };
        let at = zone.start(self.zone_blocks);
        let id = self.next_group;
        self.next_group += 1;
        // Sequence 0: every flush waits for it, since no group counts without its header.
        self.in_flight.insert(id, InFlight { zone, first_sequence: 0, from: at });
        self.outbox.push(Submission::Append { id, at, data: vec![aligned(&header.encode())] });
        self.blocks_written[usize::from(stream)] += 1;
        self.streams[usize::from(stream)] = Some(OpenSegment {
            zone,
            incarnation,
            next: 1,
            groups: Vec::new(),
            checksums: vec![0],
            builder: None,
        });
        Ok(())
    }

    /// The device has written group `id`.
    pub fn written(&mut self, id: u64) {
        let group = self.in_flight.remove(&id).expect("in flight");
        for (_, piece) in self.pending.remove(&group.from.0).unwrap_or_default() {
            self.dirty_bytes -= piece.len() as u64;
        }
        if self.kept.is_on() {
            let first = self.first_unwritten();
            self.kept.forget_below(first);
        }
    }

    /// The lowest sequence number that is not on the device, or may not be found there.
    fn first_unwritten(&self) -> u64 {
        let sent = self.in_flight.values().map(|group| group.first_sequence);
        let built = self.builders().filter_map(|builder| builder.first_sequence());
        sent.chain(built).fold(self.sequence + 1, u64::min)
    }

    /// Whether group `id` is still being built or written.
    pub fn is_in_flight(&self, id: u64) -> bool {
        self.in_flight.contains_key(&id) || self.builders().any(|builder| builder.serial == id)
    }

    /// Whether a record up to `sequence` is not written yet.
    pub fn waits_for(&self, sequence: u64) -> bool {
        self.in_flight.values().any(|group| group.first_sequence <= sequence)
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

    /// The same of the groups of a zone, its header and its footer.
    pub fn zone_waits_for_group(&self, zone: ZoneId, id: u64) -> bool {
        self.in_flight.range(..=id).any(|(_, group)| group.zone == zone)
    }

    /// Whether the zone has an append or its seal on the way.
    pub fn zone_busy(&self, zone: ZoneId) -> bool {
        self.sealing.contains(&zone) || self.zone_in_flight(zone)
    }

    /// Whether the zone has appends on their way.
    pub fn zone_in_flight(&self, zone: ZoneId) -> bool {
        self.zone_waits_for_group(zone, u64::MAX)
    }

    /// Payload of `pba` that the device does not have yet, and as many blocks after it as lie in
    /// the same piece (at most `blocks`).
    pub fn pending(&self, pba: Pba, blocks: u64) -> Option<Bytes> {
        let sent = self.pending.range(..=pba.0).next_back().map(|(_, pieces)| pieces);
        self.gathered().chain(sent).find_map(|pieces| {
            let before = pieces.partition_point(|(at, _)| *at <= pba.0);
            let (at, piece) = &pieces[before.checked_sub(1)?];
            let skip = (pba.0 - at) * BLOCK_SIZE;
            let end = (skip + blocks * BLOCK_SIZE).min(piece.len() as u64);
            (skip < end).then(|| piece.slice(skip as usize..end as usize))
        })
    }

    /// The first pending block at or after `pba`, if `pba` itself is none.
    pub fn next_pending(&self, pba: Pba) -> Option<Pba> {
        let sent = self.pending.range(pba.0..).next().map(|(&at, _)| at);
        let gathered = self.gathered().filter_map(|pieces| pieces.first().map(|(at, _)| *at));
        gathered.filter(|at| *at >= pba.0).chain(sent).min().map(Pba)
    }

    /// The payload of the groups that are being built.
    fn gathered(&self) -> impl Iterator<Item = &Pieces> {
        self.builders().map(|builder| &builder.payload)
    }

    /// Bytes of memory that the checksums of open segments take.
    pub fn open_checksum_bytes(&self) -> u64 {
        let open = self.streams.iter().flatten();
        open.map(|open| (size_of::<u32>() * open.checksums.capacity()) as u64).sum()
    }

    /// The checksums of an open segment's blocks, as far as they were sent; `None` if the segment
    /// is not open.
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

fn aligned(bytes: &[u8]) -> Bytes {
    mjolnir_device::AlignedBuf::copy_of(bytes).freeze()
}
