//! Sends groups, opens and seals segments, all through the outbox.

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, Pba};

use crate::format::group::GroupHeader;
use crate::format::segment::{Footer, SegmentHeader};
use crate::log::builder::Builder;
use crate::log::chains::InFlight;
use crate::log::{Log, NoFreeSegment, OpenSegment, Submission};
use crate::space::{Claim, RECLAIM_STREAM, Space};

impl Log {
    /// Sends the groups begun up to group `id`, if a task may wait for them.
    pub fn close_logged_groups_to(&mut self, space: &mut Space, id: u64) {
        self.close_groups_where(space, |builder| builder.awaited && builder.serial <= id);
    }

    /// Sends the stream's current group, if it holds anything.
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
            // Doubling would allocate for a full segment, which may never fill.
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
        let head = aligned(&header.encode());
        data.push(head.clone());
        data.extend(builder.payload.iter().map(|(_, buffer)| buffer.clone()));
        if let Some((first, _)) = builder.payload.first() {
            self.pending.insert(*first, builder.payload);
        }
        // A group of moved blocks in a client stream has no record to flush, but records logged
        // from now on may lie behind it. If it were lost, they would not be found.
        let none = if stream > RECLAIM_STREAM { self.sequence + 1 } else { u64::MAX };
        let sequences = header.records.iter().map(|(s, _)| *s).filter(|s| *s != 0);
        let first_sequence = sequences.min().unwrap_or(none);
        let (life, from) = ((open.zone, open.incarnation), at.plus(1));
        let blocks_sent = 1 + u64::from(blocks);
        self.blocks_written[usize::from(stream)] += blocks_sent;
        if stream != RECLAIM_STREAM {
            self.moved_beside_clients +=
                u64::from(builder.moved_blocks) + u64::from(!builder.awaited);
        }
        self.groups_total += 1;
        self.send(
            builder.serial,
            InFlight::group(
                life,
                builder.offset,
                first_sequence,
                from,
                header.records,
                blocks,
                head,
            ),
            at,
            data,
        );
    }

    /// Sends every group under construction that holds numbered records, or blocks that a
    /// checkpoint needs.
    pub fn close_logged_groups(&mut self, space: &mut Space) {
        self.close_logged_groups_to(space, u64::MAX);
    }

    /// Sends every group under construction that holds moved blocks.
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

    /// Sends every group under construction.
    pub fn close_groups(&mut self, space: &mut Space) {
        for stream in 0..self.streams.len() as u8 {
            self.close_group(space, stream);
        }
    }

    /// Ends the stream's open segment: writes the footer, then seals.
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
            let offset = at.offset(self.zone_blocks) as u32;
            let (life, piece_bytes) = ((open.zone, open.incarnation), aligned(piece));
            let footer = InFlight::bare(life, offset, u64::MAX, at, piece_bytes.clone());
            self.send(id, footer, at, vec![piece_bytes]);
            at = at.plus((piece.len() / BLOCK_BYTES) as u64);
        }
        self.blocks_written[usize::from(stream)] += u64::from(blocks);
        self.sealing.insert(open.zone);
        self.outbox.push(Submission::Seal { zone: open.zone });
        self.sealed.push((open.zone, open.checksums));
    }

    pub(crate) fn open_segment(
        &mut self,
        claim: Claim,
        space: &mut Space,
        stream: u8,
    ) -> Result<(), NoFreeSegment> {
        if !self.can_open_zone() {
            return Err(NoFreeSegment);
        }
        let (zone, incarnation) = space.open(claim, stream).ok_or(NoFreeSegment)?;
        space.get_mut(zone).opened = Some(self.sequence);
        let header =
            SegmentHeader { uuid: self.uuid, zone, incarnation, epoch: self.epoch, stream };
        let at = zone.start(self.zone_blocks);
        let id = self.next_group;
        self.next_group += 1;
        // Sequence 0: every flush waits for the header, since no group counts without it.
        let head = aligned(&header.encode());
        let append = InFlight::bare((zone, incarnation), 0, 0, at, head.clone());
        self.send(id, append, at, vec![head]);
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
}

impl Log {
    /// Notes an append as in flight, and hands it to the outbox.
    fn send(&mut self, id: u64, append: InFlight, at: Pba, data: Vec<Bytes>) {
        self.chains.sent(append.zone, id);
        self.in_flight.insert(id, append);
        self.outbox.push(Submission::Append { id, at, data });
    }
}

fn aligned(bytes: &[u8]) -> Bytes {
    mjolnir_device::AlignedBuf::copy_of(bytes).freeze()
}
