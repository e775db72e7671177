//! When the blocks of a segment were written, roughly: their births.

use crate::space::{Segment, SegmentState};

/// When the blocks of a segment were written by clients, as far as that is known of all of them
/// together. What a segment's summary says of each is on the medium alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Births {
    sum: u64,
    blocks: u64,
    /// Some were relocated here.
    moved: bool,
}

impl Births {
    pub fn add(&mut self, blocks: u32, birth: u64, moved: bool) {
        self.sum = self.sum.saturating_add(birth.saturating_mul(blocks.into()));
        self.blocks += u64::from(blocks);
        self.moved |= moved;
    }
}

impl Segment {
    /// About when a client wrote the block at `offset`: between the segment's opening and its seal
    /// in proportion, if clients alone filled it; else the mean of all its blocks. Of a segment
    /// that was opened before the store was, its seal is all that is known.
    pub(crate) fn birth_near(&self, offset: u64, now: u64) -> u64 {
        let open = self.state == SegmentState::Open;
        let end = if open { now } else { self.sealed };
        if self.births.moved {
            return self.births.sum / self.births.blocks;
        }
        let Some(opened) = self.opened else { return end };
        let share = offset as f64 / f64::from(self.used.max(1));
        opened + (end.saturating_sub(opened) as f64 * share.min(1.0)) as u64
    }
}
