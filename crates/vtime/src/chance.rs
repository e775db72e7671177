//! Draws from a seeded generator, and nothing else that is random.

use std::ops::Range;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// A seeded source of choices. Its algorithm is part of what a seed means: changing it changes
/// every run.
pub struct Chance(Pcg64);

impl Chance {
    /// The source that `seed` names.
    pub fn new(seed: u64) -> Self {
        Chance(Pcg64::seed_from_u64(seed))
    }

    /// A source of its own, so that what one part draws does not shift what another draws.
    pub fn fork(&mut self) -> Chance {
        Chance::new(self.bits())
    }

    /// 64 fresh bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `0..bound`.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to choose from");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the range.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Whether a chance of one in `n` came true; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// One of the items.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// The index of a weight, drawn in proportion to it.
    ///
    /// # Panics
    ///
    /// If all weights are 0.
    pub fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let mut rest = self.below(weights.clone().map(u64::from).sum());
        for (index, weight) in weights.enumerate() {
            match rest.checked_sub(u64::from(weight)) {
                Some(left) => rest = left,
                None => return index,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }
}
