//! Finding a segment's groups: along their chain, and past headers that are damaged.

use std::ops::Range;

use mjolnir_device::{AlignedBuf, Device, DeviceError, Runtime};
use mjolnir_store::report::ReadPurpose;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, ZoneId};

use crate::drive::engine::Engine;
use crate::drive::read::headers_ahead::HeadersAhead;
use crate::fault;
use crate::format::group::{GROUP_BLOCKS_MAX, GroupHeader, GroupPlace};

/// Blocks from a segment's start in which the group after a lost one begins: it cannot be longer than the
/// longest.
pub(crate) const REACH: u64 = 2 * (1 + GROUP_BLOCKS_MAX as u64);

/// Blocks that are read at once in search of a header.
const STRIDE: u64 = 256;

/// How often a block is read before what it says is believed: what ends a chain decides what
/// counts as written, and a fault that passes must not.
pub(crate) const TRIES: usize = 3;

/// A segment's groups, in order.
pub(crate) struct Walk {
    pub groups: Vec<GroupHeader>,
    pub breaks: Vec<Break>,
}

/// Where the chain of groups breaks, though it should perhaps go on.
pub(crate) struct Break {
    /// Where a header should be.
    pub offset: u64,
    /// Where the next one was found.
    pub next: Option<u64>,
    /// What is damaged; `None` if the header may never have been written, as when a power cut took
    /// it and not the group after it.
    pub damage: Option<String>,
}

/// A header that is lost, in a segment that holds data, and the blocks that it described.
pub(crate) struct Hole {
    pub message: String,
    pub blocks: Range<u64>,
}

impl Break {
    /// As a hole in a segment that is in use up to block `end`.
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
    /// Reads the group headers of a segment up to block `end`, but for those that cannot be read.
    pub(crate) async fn walk_groups(
        &self,
        purpose: ReadPurpose,
        zone: ZoneId,
        incarnation: u64,
        end: u64,
    ) -> Result<Vec<GroupHeader>, Error> {
        Ok(self.walk_segment(purpose, zone, incarnation, end).await?.groups)
    }

    /// As [`walk_groups`](Self::walk_groups), and tells what was in the way. Behind a break it looks for
    /// the next group in all that is left: where very much was overwritten, that alone tells.
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
            // Short of a known end it is a break, whatever is there.
            if damage.is_some() || next.is_some() || end < zone_blocks {
                walk.breaks.push(Break { offset, next, damage });
            }
            let Some(next) = next else { break };
            offset = next;
        }
        Ok(walk)
    }

    /// The header of a place, which may have been read once already; else what is damaged there, if
    /// anything. A device that is gone is an error.
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

    /// The first block from `from` to before `limit` that is the header of a group which `ours`
    /// accepts, given its offset. Blocks that cannot be read are none; behind very many of them in a row
    /// nothing is looked for, since each may take a failing disk seconds.
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
                // In smaller and smaller steps up to what cannot be read, and past that.
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
