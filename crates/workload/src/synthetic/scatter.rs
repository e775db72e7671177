//! Scatters ranks over a range: which block is the most popular is no matter of its address.

use crate::mix::mix;

/// A permutation of `0..count`, chosen by a key: a Feistel network on the next even number of bits,
/// walked until it falls into the range.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    count: u64,
    half_bits: u32,
    key: u64,
}

impl Scatter {
    const ROUNDS: u64 = 4;

    pub(super) fn new(count: u64, key: u64) -> Self {
        assert!(count > 0, "nothing to scatter over");
        let bits = u64::BITS - (count - 1).leading_zeros();
        Scatter { count, half_bits: bits.div_ceil(2).max(1), key }
    }

    /// Where `rank`, which is below the count, goes.
    pub(super) fn place(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.count);
        let mut value = rank;
        loop {
            value = self.once(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn once(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..Self::ROUNDS {
            let turned = mix(right ^ mix(self.key ^ round)) & mask;
            (left, right) = (right, left ^ turned);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for count in [1, 2, 3, 5, 16, 17, 1000, 4096, 5000] {
            for key in 0..4 {
                let scatter = Scatter::new(count, key);
                let mut places: Vec<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
                if count >= 1000 {
                    assert!(
                        places.iter().zip(0..).filter(|(place, rank)| *place == rank).count() < 10
                    );
                }
                places.sort_unstable();
                assert!(places.into_iter().eq(0..count), "{count} places, key {key}");
            }
        }
    }

    #[test]
    fn large_ranges_are_scattered_over() {
        let scatter = Scatter::new((1 << 60) - 3, 9);
        for rank in 0..1000 {
            assert!(scatter.place(rank) < (1 << 60) - 3);
        }
    }
}
