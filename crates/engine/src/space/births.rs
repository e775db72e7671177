//! Births: approximately when a segment's blocks were written.

use crate::space::{Segment, SegmentState};

/// When clients wrote a segment's blocks, for all blocks together. The birth of each block stands
/// only in the segment's summary on the medium.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Births {
    sum: u64,
    blocks: u64,
    /// Whether some blocks were relocated here.
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
    /// The approximate time at which a client wrote the block at `offset`. If clients alone filled
    /// the segment, interpolated between its opening and its seal; otherwise the mean of all its
    /// blocks. For a segment opened before the store was, only the seal is known.
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
