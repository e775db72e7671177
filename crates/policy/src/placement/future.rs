//! Knowledge of the future: the bound that no real policy reaches.

use crate::placement::{BlockView, Stream};

/// When a block will be overwritten next: what only the offline replayer knows.
///
/// It cannot be made but by [`replay`](crate::replay), which has read the whole load beforehand.
/// So no policy that a real store runs can ever have one:
///
/// ```compile_fail,E0451
/// let future = mjolnir_policy::placement::Future { next_write: Some(7) };
/// ```
///
/// and a policy that needs one is not a policy that a store accepts:
///
/// ```compile_fail,E0277
/// use mjolnir_policy::placement::{Bins, FutureKnowledge, PlacementPolicy};
/// let leak: Box<dyn PlacementPolicy> = Box::new(FutureKnowledge::new(Bins::Logarithmic, 8, 4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Future {
    next_write: Option<u64>,
}

impl Future {
    /// For the replayer alone.
    pub(crate) fn new(next_write: Option<u64>) -> Self {
        Future { next_write }
    }

    /// The sequence number of the write that replaces the block; `None` if none does.
    pub fn next_write(&self) -> Option<u64> {
        self.next_write
    }
}

/// Chooses streams by what will happen. The contract is that of
/// [`PlacementPolicy`](super::PlacementPolicy).
pub trait OfflinePlacement {
    /// What the policy is called in results.
    fn name(&self) -> &'static str;

    /// How many streams it uses.
    fn streams(&self) -> u8;

    /// Where to append the block.
    fn place(&self, block: &BlockView, future: &Future) -> Stream;
}

/// How remaining lifetimes are divided into streams. The unit is a segment's worth of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bins {
    /// Less than 1, 2, 3, ... segments: the *FK* of SepBIT's simulator.
    Linear,
    /// Less than 4, 8, 16, ... segments. Lifetimes under skewed loads span powers of ten, and so
    /// do these.
    Logarithmic,
    /// Less than 1, 4, 16, ... segments: wider still.
    Quartering,
}

/// Puts together what will be overwritten in about the same time.
#[derive(Clone, Copy, Debug)]
pub struct FutureKnowledge {
    bins: Bins,
    streams: u8,
    segment_blocks: u64,
}

impl FutureKnowledge {
    /// `streams` (at least one) of segments of `segment_blocks` (at least one).
    pub fn new(bins: Bins, streams: u8, segment_blocks: u64) -> Self {
        FutureKnowledge { bins, streams: streams.max(1), segment_blocks: segment_blocks.max(1) }
    }
}

impl OfflinePlacement for FutureKnowledge {
    fn name(&self) -> &'static str {
        match self.bins {
            Bins::Linear => "future-linear",
            Bins::Logarithmic => "future",
            Bins::Quartering => "future-quartering",
        }
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView, future: &Future) -> Stream {
        let left =
            future.next_write.map_or(u64::MAX, |next| next.saturating_sub(block.now_sequence));
        let segments = left / self.segment_blocks;
        let bits = |segments: u64| u64::from(u64::BITS - segments.leading_zeros());
        let bin = match self.bins {
            Bins::Linear => segments,
            Bins::Logarithmic => bits(segments / 4),
            Bins::Quartering => bits(segments).div_ceil(2),
        };
        Stream(bin.min(u64::from(self.streams) - 1) as u8)
    }
}
