//! The warm log: acknowledged records that are not written yet, kept in a [`WarmLog`] that survives
//! the process.
//!
//! An entry stays until all records up to its number are written, since recovery ends at the first
//! gap. Its payload is held as long, so that its memory is not reused before.
//!
//! A record without room in the warm log is acknowledged only after it and all earlier records are
//! written: a gap would make later entries worthless. The same holds on a store so full that a
//! successor could not log the entries again.

use std::collections::VecDeque;

use bytes::Bytes;
use mjolnir_device::WarmLog;
use mjolnir_units::BLOCK_BYTES;

use crate::format::group::GROUP_BLOCKS_MAX;
use crate::format::record::Record;
use crate::space::Space;

/// Combines the content checksums of successive blocks.
pub(crate) fn fold(sum: u32, content: u32) -> u32 {
    (sum.rotate_left(5) ^ content).wrapping_mul(0x9e37_79b1)
}

/// The fewest records to a header block when they are logged again.
const RECORDS_A_GROUP: usize = 32;

/// See the module.
#[derive(Default)]
pub(crate) struct Kept {
    warm: Option<Box<dyn WarmLog>>,
    /// The entries: number and payload.
    entries: VecDeque<(u64, Bytes)>,
    /// Payload blocks in the entries.
    blocks: u64,
    /// Blocks that the store has room to log again.
    room: u64,
    /// The highest unwritten number that was not noted.
    missing: u64,
    /// All records up to this number are written.
    written: u64,
    /// Whether records logged now belong together. They are not noted: single entries could survive
    /// alone.
    is_together: bool,
    bytes: Vec<u8>,
}

impl Kept {
    /// Starts noting all records; those up to `sequence` are durable.
    pub fn begin(&mut self, warm: Box<dyn WarmLog>, sequence: u64) {
        *self = Kept { warm: Some(warm), written: sequence, ..Kept::default() };
    }

    /// Stops noting, and removes all entries.
    pub fn end(&mut self) {
        if let Some(mut warm) = self.warm.take() {
            warm.end();
        }
        self.entries.clear();
    }

    pub fn is_on(&self) -> bool {
        self.warm.is_some()
    }

    /// Updates the room for logging again, which a successor does besides its checkpoint.
    pub fn follow_room(&mut self, space: &Space) {
        let spare = space.free_count().saturating_sub(space.checkpoint_reserve() + 1) as u64;
        // A record is not split: the longest may not fit the rest of a segment.
        let blocks = space.payload_bytes() / BLOCK_BYTES as u64;
        self.room = spare * blocks.saturating_sub(u64::from(GROUP_BLOCKS_MAX).min(blocks / 2));
    }

    /// Sets whether records logged from now on belong together. Used for records that are durable
    /// before they are acknowledged.
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

    /// The number up to which all records must be written before the next acknowledgement.
    pub(crate) fn owed(&self) -> Option<u64> {
        (self.missing > self.written).then_some(self.missing)
    }

    pub(crate) fn owes(&self, sequence: u64) -> bool {
        self.written < sequence
    }
}
