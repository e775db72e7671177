//! Draws from candidates without replacement, the same in every run.

use crate::victim::{SegmentView, VictimView};

/// A source of draws (SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014). A policy owns one with a seed of its own, so equal histories of views give
/// equal answers.
#[derive(Clone, Debug)]
pub(super) struct Draw(pub(super) u64);

impl Draw {
    /// A number below `bound`, which is above 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

/// The candidates of a view in an order that does not depend on the view's.
pub(super) fn by_zone<'a>(view: &VictimView<'a>) -> Vec<&'a SegmentView> {
    let mut candidates: Vec<_> = view.candidates().collect();
    candidates.sort_unstable_by_key(|segment| segment.zone);
    candidates
}
