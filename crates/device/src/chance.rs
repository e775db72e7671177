//! Draws from a seeded generator.

use rand_core::Rng;

/// A number from `0..bound`, near enough to uniform for choosing (`bound` is small).
pub(crate) fn below(chance: &mut impl Rng, bound: u64) -> u64 {
    assert!(bound > 0, "nothing to choose from");
    ((u128::from(chance.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Whether a chance of one in `n` came true; never if `n` is 0.
pub(crate) fn one_in(chance: &mut impl Rng, n: u64) -> bool {
    n > 0 && below(chance, n) == 0
}
