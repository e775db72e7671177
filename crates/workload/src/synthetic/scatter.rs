//! Scatters ranks over a range, so that a block's popularity does not depend on its address.

use crate::mix::mix;

/// A permutation of `0..count`, chosen by a key.
///
/// A Feistel network on pairs: a number is the pair of its quotient and rest by about the root of
/// the count, and each round adds to one half a number that follows from the other, modulo the
/// half's range. There are few more pairs than numbers; from one that is no number, it goes on
/// until it meets one.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    count: u64,
    /// Ranges of the two halves.
    quotients: u64,
    rests: u64,
    keys: [u64; 4],
}

impl Scatter {
    pub(super) fn new(count: u64, key: u64) -> Self {
        assert!(count > 0, "nothing to scatter over");
        let rests = count.isqrt().max(1);
        let keys = std::array::from_fn(|round| mix(key ^ round as u64));
        Scatter { count, quotients: count.div_ceil(rests), rests, keys }
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
        let (mut quotient, mut rest) = (value / self.rests, value % self.rests);
        for pair in self.keys.chunks_exact(2) {
            quotient = shifted(quotient, mix(rest ^ pair[0]), self.quotients);
            rest = shifted(rest, mix(quotient ^ pair[1]), self.rests);
        }
        quotient * self.rests + rest
    }
}

/// Moves a number of `0..range` on by a share of the range that the bits say, around its end.
fn shifted(value: u64, bits: u64, range: u64) -> u64 {
    let by = ((u128::from(bits) * u128::from(range)) >> 64) as u64;
    let sum = value + by;
    if sum >= range { sum - range } else { sum }
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
