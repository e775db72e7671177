//! A set of segments that tells fast whether a block lies in one of them.

use mjolnir_units::{Pba, ZoneId};

/// A set of zones that is asked for each mapping of a map.
pub(in crate::reclaim) struct ZoneSet {
    divide: Divide,
    /// For each zone its place in the set's order, plus 1; 0 for those that are not in it, and behind the
    /// last zone for whatever lies there.
    places: Vec<u32>,
    members: usize,
}

impl ZoneSet {
    pub fn new(zones: usize, zone_blocks: u64, members: impl Iterator<Item = ZoneId>) -> Self {
        let mut set =
            ZoneSet { divide: Divide::by(zone_blocks), places: vec![0; zones + 1], members: 0 };
        for (place, zone) in (1..).zip(members) {
            set.places[zone.0 as usize] = place;
            set.members += 1;
        }
        set
    }

    pub fn len(&self) -> usize {
        self.members
    }

    /// The block's zone, and its place in the set's order plus 1; 0 if it is not in the set.
    #[inline]
    fn place(&self, pba: Pba) -> (u64, u32) {
        let zone = self.divide.quotient(pba.0).min(self.places.len() as u64 - 1);
        (zone, self.places[zone as usize])
    }

    /// The block's zone and its place in the set's order, if it is in the set.
    #[inline]
    pub fn find(&self, pba: Pba) -> Option<(ZoneId, usize)> {
        let (zone, place) = self.place(pba);
        (place != 0).then(|| (ZoneId(zone as u32), place as usize - 1))
    }

    /// Whether any of a leaf's words may refer to one of the set: one that is a hole may seem to.
    #[inline]
    pub fn may_find_any(&self, words: &[u64]) -> bool {
        words.iter().fold(0, |any, word| any | self.place(Pba(word & Pba::MAX.0)).1) != 0
    }
}

/// Division by a number that is known late, without the division's price.
struct Divide {
    divisor: u64,
    /// 2⁶⁴ / divisor, rounded down.
    inverse: u64,
    /// The bits that it is a shift by, where the divisor is a power of two.
    shift: Option<u32>,
}

impl Divide {
    fn by(divisor: u64) -> Self {
        assert!(divisor > 1, "a zone has several blocks");
        let inverse = (u128::from(u64::MAX) + 1).div_euclid(divisor.into()) as u64;
        let shift = divisor.is_power_of_two().then_some(divisor.trailing_zeros());
        Divide { divisor, inverse, shift }
    }

    #[inline]
    fn quotient(&self, value: u64) -> u64 {
        if let Some(shift) = self.shift {
            return value >> shift;
        }
        // Too small by at most one: the inverse was rounded down by less than 1, and the value is
        // less than 2⁶⁴, so the product lost less than one quotient.
        let low = ((u128::from(value) * u128::from(self.inverse)) >> 64) as u64;
        low + u64::from(value - low * self.divisor >= self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_map::word;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn quotients_are_exact() {
        let mut random = Pcg64::seed_from_u64(1);
        for divisor in [2, 3, 7, 32, 100, 4096, 32768, 32769, (1 << 31) - 1] {
            let divide = Divide::by(divisor);
            let edges = [0, 1, divisor - 1, divisor, divisor + 1, Pba::MAX.0, u64::MAX];
            let values = edges.into_iter().chain((0..1000).map(|_| random.next_u64() >> 10));
            for value in values {
                assert_eq!(divide.quotient(value), value / divisor, "{value} / {divisor}");
            }
        }
    }

    #[test]
    fn of_some_words_at_once_none_is_overlooked() {
        let mut random = Pcg64::seed_from_u64(3);
        for zone_blocks in [64, 100] {
            let set = ZoneSet::new(50, zone_blocks, [ZoneId(49), ZoneId(3)].into_iter());
            let (mut found, mut missed) = (0, 0);
            for _ in 0..20_000 {
                let mut word = || match random.next_u64() % 9 {
                    0 => word::hole(1 + random.next_u64() % 9_000),
                    // Behind the last zone, too.
                    kind => word::mapped(Pba(random.next_u64() % (60 * zone_blocks)), 1 + kind % 2),
                };
                let words = [word(), word(), word()];
                let finds = words.iter().filter_map(|word| word::pba(*word));
                let finds = finds.filter_map(|pba| set.find(pba)).count();
                assert!(set.may_find_any(&words) || finds == 0);
                found += u64::from(finds > 0);
                missed += u64::from(set.may_find_any(&words) && finds == 0);
            }
            assert!(found > 1_000 && missed < found / 2, "{found} {missed}");
            assert_eq!(set.find(Pba(3 * zone_blocks + 5)), Some((ZoneId(3), 1)));
            assert_eq!(set.find(Pba(50 * zone_blocks)), None);
            assert!(!set.may_find_any(&[]));
        }
    }
}
