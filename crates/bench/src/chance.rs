//! Chance that repeats.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A generator with a seed.
#[derive(Clone)]
pub struct Chance(Pcg64Mcg);

impl Chance {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Chance(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// A permutation of the numbers below a power of two that takes no memory: what looks shuffled.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    bits: u32,
}

impl Shuffle {
    /// Of the numbers below `count`, a power of two.
    pub fn of(count: u64) -> Self {
        assert!(count.is_power_of_two(), "{count} is no power of two");
        Shuffle { bits: count.trailing_zeros() }
    }

    /// Where `at` goes: rounds of multiplying by an odd number and folding the high half down,
    /// each of which can be undone.
    pub fn place(self, at: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let fold = self.bits / 2 + 1;
        let mut x = at & mask;
        for odd in [0x9E37_79B9_7F4A_7C15u64, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
            x = x.wrapping_mul(odd) & mask;
            x ^= x >> fold;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation_without_runs() {
        for bits in [0, 1, 5, 12, 16] {
            let count = 1u64 << bits;
            let shuffle = Shuffle::of(count);
            let mut seen = vec![false; count as usize];
            let mut runs = 0;
            for at in 0..count {
                let place = shuffle.place(at);
                assert!(!std::mem::replace(&mut seen[place as usize], true));
                runs += u64::from(at > 0 && place == shuffle.place(at - 1) + 1);
            }
            // Of a handful of numbers some are neighbours wherever they go.
            let few = bits < 12 || runs * 50 <= count;
            assert!(few, "{runs} of {count} follow their neighbour");
        }
    }

    #[test]
    fn numbers_stay_below_the_end() {
        let mut chance = Chance::new(7);
        let drawn: Vec<u64> = (0..1000).map(|_| chance.below(10)).collect();
        assert!(drawn.iter().all(|n| *n < 10) && (0..10).all(|n| drawn.contains(&n)));
    }
}
