//! Adds records and payload to the group that a stream builds.

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, Pba};

use crate::format::bind;
use crate::format::group::FIXED_BYTES;
use crate::format::record::Record;
use crate::format::segment::Footer;
use crate::log::builder::Builder;
use crate::log::kept::fold;
use crate::log::{Log, NoFreeSegment};
use crate::space::{Claim, Space};

/// Upper bound on a usual trim's or write's record in a header, in bytes.
const USUAL_RECORD_BYTES: u64 = 64;

impl Log {
    /// Allocates space in `stream` for a record of `record_bytes` and up to `blocks` payload
    /// blocks. Returns the payload's address and how many of the blocks fit (all or some; none only
    /// if `blocks` is 0). The result holds until the next call.
    pub fn allocate(
        &mut self,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(Pba, u32), NoFreeSegment> {
        self.allocate_as(Claim::of_stream(stream), space, stream, record_bytes, blocks)
    }

    /// As [`allocate`](Self::allocate), but opens a segment only if `claim` permits.
    pub fn allocate_as(
        &mut self,
        claim: Claim,
        space: &mut Space,
        stream: u8,
        record_bytes: usize,
        blocks: u32,
    ) -> Result<(Pba, u32), NoFreeSegment> {
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

    /// Adds a record and its payload, if any, in the space from [`allocate`](Self::allocate). The
    /// record gets the next sequence number, unless it is of an unnumbered kind. Returns the
    /// group's id.
    pub fn push(&mut self, stream: u8, record: Record, payload: Bytes, record_bytes: usize) -> u64 {
        self.push_known(stream, record, payload, &[], record_bytes)
    }

    /// As [`push`](Self::push), with known content checksums for the first blocks, which were just
    /// read and verified.
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
        let open = self.streams[usize::from(stream)].as_mut().expect("allocated");
        let builder = open.builder.as_mut().expect("allocated");
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

    /// As [`push`](Self::push), for a record that has its number already. Returns where its payload
    /// lies.
    pub(super) fn push_again(
        &mut self,
        stream: u8,
        sequence: u64,
        record: Record,
        payload: Bytes,
    ) -> Pba {
        let (zone_blocks, checksum) = (self.zone_blocks, self.checksum);
        let open = self.streams[usize::from(stream)].as_mut().expect("allocated");
        let builder = open.builder.as_mut().expect("allocated");
        let first = open
            .zone
            .start(zone_blocks)
            .plus(u64::from(builder.offset) + 1 + builder.checksums.len() as u64);
        for (block, at) in payload.chunks_exact(BLOCK_BYTES).zip(first.0..) {
            builder.checksums.push(checksum(block) ^ bind(Pba(at), open.incarnation));
        }
        self.dirty_bytes += payload.len() as u64;
        builder.record_bytes += record.encoded_bytes();
        builder.awaited = true;
        builder.records.push((sequence, record));
        if !payload.is_empty() {
            builder.payload.push((first.0, payload));
        }
        first
    }

    /// Adds payload without a record (the map's blocks).
    pub fn push_bare(&mut self, stream: u8, payload: Bytes) -> u64 {
        let (zone_blocks, checksum) = (self.zone_blocks, self.checksum);
        let open = self.streams[usize::from(stream)].as_mut().expect("allocated");
        let builder = open.builder.as_mut().expect("allocated");
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
}
