//! Finds a segment's groups: along their chain, and past damaged headers.

use std::ops::Range;

use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_store::report::ReadPurpose;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::headers_ahead::HeadersAhead;
use crate::fault;
use crate::format::group::{GROUP_BLOCKS_MAX, GroupHeader, GroupPlace};

/// Blocks from a segment's start within which the group after a lost one begins: no group is longer
/// than the longest.
pub(crate) const REACH: u64 = 2 * (1 + GROUP_BLOCKS_MAX as u64);

/// Blocks per read when searching for a header.
const STRIDE: u64 = 256;

/// Reads of a block before its content is believed. The end of a chain decides which records count
/// as written, so a transient fault must not decide it.
pub(crate) const TRIES: usize = 3;

/// A segment's groups, in order.
pub(crate) struct Walk {
    pub groups: Vec<GroupHeader>,
    pub breaks: Vec<Break>,
}

/// A break in the chain of groups, before its expected end.
pub(crate) struct Break {
    /// Expected offset of the header.
    pub offset: u64,
    /// Offset of the next header found.
    pub next: Option<u64>,
    /// The damage; `None` if the header may never have been written, as when a power cut took it
    /// but not the group after it.
    pub damage: Option<String>,
}

/// A lost header in a segment that holds data, and the blocks that it described.
pub(crate) struct Hole {
    pub message: String,
    pub blocks: Range<u64>,
}

impl Break {
    /// This break as a hole, in a segment in use up to block `end`.
    pub fn hole(&self, zone: ZoneId, zone_blocks: u64, end: u64) -> Hole {
        let start = zone.start(zone_blocks);
        let what = self.damage.clone().unwrap_or_else(|| {
            let at = start.plus(self.offset);
            format!(
                "there is no group header at {at} (block {} of segment {})",
                self.offset, zone.0
            )
        });
        let next = self.next.unwrap_or(end).max(self.offset + 1);
        Hole {
            message: format!("{what}; it describes the blocks up to {}", start.plus(next)),
            blocks: start.0 + self.offset + 1..start.0 + next,
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads the readable group headers of a segment up to block `end`.
    pub(crate) async fn walk_groups(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
        incarnation: u64,
        end: u64,
    ) -> Result<Vec<GroupHeader>, Error> {
        Ok(self.walk_segment(purpose, zone, incarnation, end).await?.groups)
    }

    /// As [`walk_groups`](Self::walk_groups), and reports the breaks. Behind a break it searches
    /// the whole rest of the segment for the next group, which alone can reveal a large overwrite.
    pub(crate) async fn walk_segment(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
        incarnation: u64,
        end: u64,
    ) -> Result<Walk, Error> {
        self.wait_for_zone_writes(zone).await;
        let (zone_blocks, uuid) = {
            let state = self.state();
            (state.info.zone_blocks, state.info.uuid)
        };
        let end = end.min(zone_blocks);
        let mut walk = Walk { groups: Vec::new(), breaks: Vec::new() };
        let mut ahead = HeadersAhead::new(self, purpose, zone, end);
        let mut offset = 1;
        while offset < end {
            let place = GroupPlace { uuid, zone, offset: offset as u32, incarnation };
            let first = ahead.take(offset).await;
            let damage = match self.read_header(purpose, &place, first).await? {
                Ok(header) if offset + header.checksums.len() as u64 >= zone_blocks => {
                    Some(format!(
                        "the group at block {offset} of segment {} says that it is longer than \
                         the segment",
                        zone.0
                    ))
                }
                Ok(header) => {
                    offset += 1 + header.checksums.len() as u64;
                    walk.groups.push(header);
                    continue;
                }
                Err(why) => why,
            };
            let ours = |header: &GroupHeader, offset| header.is_at(&GroupPlace { offset, ..place });
            let next = self.next_group(purpose, zone, offset + 1, end, ours).await?;
            let next = next.map(|(offset, _)| offset);
            // Before a known end this is a break, whatever the block holds.
            if damage.is_some() || next.is_some() || end < zone_blocks {
                walk.breaks.push(Break { offset, next, damage });
            }
            let Some(next) = next else { break };
            offset = next;
        }
        Ok(walk)
    }

    /// Reads the header at a place, which may have been read ahead; otherwise returns the damage
    /// there, if any. A missing device is an error.
    async fn read_header(
        &self,
        purpose: ReadPurpose,
        place: &GroupPlace,
        mut first: Option<Result<AlignedBuf, DeviceError>>,
    ) -> Result<Result<GroupHeader, Option<String>>, Error> {
        let GroupPlace { zone, offset, .. } = *place;
        let at = zone.start(self.state().info.zone_blocks).plus(u64::from(offset));
        let mut why = None;
        for _ in 0..TRIES {
            let block = match first.take() {
                Some(block) => block,
                None => {
                    let buffer = self.buffer(BLOCK_BYTES);
                    self.read_device(purpose, at, buffer).await
                }
            };
            let what = format!("reading the group header at block {offset} of segment {}", zone.0);
            let block = match block.map_err(|error| fault::device(&what, error)) {
                Ok(block) => block,
                Err(error) if error.kind == ErrorKind::Damaged => {
                    why = Some(error.message);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match GroupHeader::decode(block.as_ref()) {
                Ok(header) if header.is_at(place) => return Ok(Ok(header)),
                _ if GroupHeader::is_damaged(block.as_ref(), place) => {
                    let what = format!(
                        "the group header at {at} (block {offset} of segment {}) fails its checksum",
                        zone.0
                    );
                    self.note_mismatch(purpose, at, &what);
                    why = Some(what);
                }
                _ => why = None,
            }
        }
        Ok(Err(why))
    }

    /// The first block in `from..limit` that is the header of a group which `ours` accepts, given
    /// its offset. Unreadable blocks count as no header. The search ends behind very many
    /// unreadable blocks in a row, since a failing disk may take seconds for each.
    pub(crate) async fn next_group(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
        mut from: u64,
        limit: u64,
        ours: impl Fn(&GroupHeader, u32) -> bool,
    ) -> Result<Option<(u64, GroupHeader)>, Error> {
        let start = zone.start(self.state().info.zone_blocks);
        let (mut stride, mut unreadable) = (STRIDE, 0);
        while from < limit && unreadable < REACH {
            let count = stride.min(limit - from);
            let buffer = self.buffer(count as usize * BLOCK_BYTES);
            let read = self.read_device(purpose, start.plus(from), buffer).await;
            let bytes = match read.map_err(|error| fault::device("looking for a group", error)) {
                Ok(bytes) => bytes,
                // Halve the step up to the unreadable block, then go past it.
                Err(error) if error.kind == ErrorKind::Damaged => {
                    from += u64::from(count == 1);
                    unreadable += u64::from(count == 1);
                    stride = (count / 2).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (block, offset) in bytes.as_ref().chunks_exact(BLOCK_BYTES).zip(from..) {
                if let Ok(header) = GroupHeader::decode(block)
                    && ours(&header, offset as u32)
                {
                    return Ok(Some((offset, header)));
                }
            }
            from += count;
            (stride, unreadable) = ((2 * stride).min(STRIDE), 0);
        }
        Ok(None)
    }
}
