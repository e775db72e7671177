//! What survives the process: acknowledged records that are not written yet, in a [`WarmLog`].
//!
//! An entry stays until all records up to its number are written, since recovery ends at the first gap. Its
//! payload is held as long, so that the memory that it lies in is not used again before.
//!
//! What has no place there is acknowledged only once it is written, and all before it: a gap would make what
//! follows worthless. So it is with a store that is so full that what was left could not be logged again.

use std::collections::VecDeque;

use bytes::Bytes;
use mjolnir_device::WarmLog;
use mjolnir_units::BLOCK_BYTES;

use crate::format::group::GROUP_BLOCKS_MAX;
use crate::format::record::Record;
use crate::space::Space;

/// Joins the checksums of the content of blocks, one after another.
pub(crate) fn fold(sum: u32, content: u32) -> u32 {
    (sum.rotate_left(5) ^ content).wrapping_mul(0x9e37_79b1)
}

/// Records to a block of a group's header, at least, when they are logged again.
const RECORDS_A_GROUP: usize = 32;

/// See the module.
#[derive(Default)]
pub(crate) struct Kept {
    warm: Option<Box<dyn WarmLog>>,
    /// What is noted: number, blocks, and the payload.
    entries: VecDeque<(u64, Bytes)>,
    /// Blocks of payload in them.
    blocks: u64,
    /// Blocks that there is room to log again.
    room: u64,
    /// The last number that is not noted, though not written.
    missing: u64,
    /// All up to this number are written.
    written: u64,
    /// What is logged now belongs together, and is not noted: an entry each could survive alone.
    is_together: bool,
    bytes: Vec<u8>,
}

impl Kept {
    /// From now on all records are noted; those up to `sequence` are durable.
    pub fn begin(&mut self, warm: Box<dyn WarmLog>, sequence: u64) {
        *self = Kept { warm: Some(warm), written: sequence, ..Kept::default() };
    }

    /// Nothing is noted any more, and nothing left behind.
    pub fn end(&mut self) {
        if let Some(mut warm) = self.warm.take() {
            warm.end();
        }
        self.entries.clear();
    }

    pub fn is_on(&self) -> bool {
        self.warm.is_some()
    }

    /// Follows how much there is room to log again: by the successor, besides the checkpoint that it takes.
    pub fn follow_room(&mut self, space: &Space) {
        let spare = space.free_count().saturating_sub(space.checkpoint_reserve() + 1) as u64;
        // A record is not parted: the longest may not fit what is left of a segment.
        let blocks = space.payload_bytes() / BLOCK_BYTES as u64;
        self.room = spare * blocks.saturating_sub(u64::from(GROUP_BLOCKS_MAX).min(blocks / 2));
    }

    /// Whether what is logged from now on belongs together. It is for what is durable before anyone hears of it.
    pub fn together(&mut self, is_together: bool) {
        self.is_together = is_together;
    }

    pub fn note(&mut self, sequence: u64, record: &Record, payload: &Bytes, checksum: u32) {
        let Some(warm) = &mut self.warm else { return };
        if self.is_together {
            self.missing = sequence;
            return;
        }
        let blocks = (payload.len() / BLOCK_BYTES) as u64;
        let headers = (self.entries.len() / RECORDS_A_GROUP) as u64;
        let fits = self.blocks + blocks + headers < self.room;
        self.bytes.clear();
        record.encode_into(&mut self.bytes);
        if fits && warm.note(sequence, &self.bytes, payload, checksum) {
            self.entries.push_back((sequence, payload.clone()));
            self.blocks += blocks;
        } else {
            self.missing = sequence;
        }
    }

    /// All records below this number are written.
    pub fn forget_below(&mut self, sequence: u64) {
        let Some(written) = sequence.checked_sub(1).filter(|written| *written > self.written)
        else {
            return;
        };
        self.written = written;
        if let Some(warm) = &mut self.warm {
            warm.forget(written);
        }
        while let Some((_, payload)) = self.entries.pop_front_if(|(number, _)| *number <= written) {
            self.blocks -= (payload.len() / BLOCK_BYTES) as u64;
        }
    }

    /// The number up to which all must be written before anything more is acknowledged.
    pub(crate) fn owed(&self) -> Option<u64> {
        (self.missing > self.written).then_some(self.missing)
    }

    pub(crate) fn owes(&self, sequence: u64) -> bool {
        self.written < sequence
    }
}
