//! Which blocks are live: one bit for each block of the device.
//!
//! Several jobs mark at once. Each processor has a sheet of bits of its own, so that setting a bit is
//! a plain store: an atomic one would stop the processor from overlapping the cache misses, of which
//! a mark of a large map is made. And it is the same sheet in each of its jobs: one that another
//! processor wrote last has to come over from its cache, line by line. The sheets are joined when the
//! mark has ended.

use std::ops::{Add, Sub};
use std::sync::{Mutex, MutexGuard};

use mjolnir_map::{Bits, word};
use mjolnir_units::{Pba, ZoneId};

/// What words refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Words that are no holes.
    pub words: u64,
    /// Blocks, each as often as it is referred to.
    pub blocks: u64,
}

impl Mapped {
    /// What these words refer to.
    pub fn of(words: &[u64]) -> Self {
        let mapped = words.iter().filter(|word| word::pba(**word).is_some());
        mapped.fold(Mapped::default(), |sum, word| {
            sum + Mapped { words: 1, blocks: word::blocks(*word) }
        })
    }
}

impl Add for Mapped {
    type Output = Mapped;

    fn add(self, other: Mapped) -> Mapped {
        Mapped { words: self.words + other.words, blocks: self.blocks + other.blocks }
    }
}

impl Sub for Mapped {
    type Output = Mapped;

    fn sub(self, other: Mapped) -> Mapped {
        Mapped { words: self.words - other.words, blocks: self.blocks - other.blocks }
    }
}

/// Sets the bits of all that a leaf's words refer to.
#[inline]
pub(super) fn set_all(live: &mut Bits, entries: &[u64]) -> Mapped {
    let (mut words, mut blocks) = (entries.len() as u64, entries.len() as u64);
    // A random map is made of single blocks. So short is their part of the loop that the misses of
    // many are under way at once.
    for entry in entries {
        if word::is_single(*entry) {
            live.set(*entry);
        } else if let Some(pba) = word::pba(*entry) {
            live.set_run(pba.0, pba.0 + word::blocks(*entry));
            blocks += word::blocks(*entry) - 1;
        } else {
            words -= 1;
            blocks -= 1;
        }
    }
    Mapped { words, blocks }
}

/// The live blocks of the segments that were sealed when a mark began.
pub(super) struct LiveMap {
    zone_blocks: u64,
    zones: u64,
    /// The segments that the mark judges.
    judged: Vec<ZoneId>,
    /// One for each job that may run at once; without room before it is first used.
    sheets: Vec<Mutex<Bits>>,
}

impl LiveMap {
    /// No block is live yet. The device has `zones` zones; those `judged` will be counted. Up to
    /// `jobs` jobs mark at once.
    pub fn new(zones: usize, zone_blocks: u64, judged: Vec<ZoneId>, jobs: usize) -> Self {
        let sheets = (0..jobs).map(|_| Mutex::default()).collect();
        LiveMap { zone_blocks, zones: zones as u64, judged, sheets }
    }

    /// The sheet of a job, by its number, which no other has at the time: nobody waits for it.
    pub fn sheet(&self, job: usize) -> MutexGuard<'_, Bits> {
        let mut sheet = self.sheets[job].lock().expect("a mark ends with a job that panicked");
        if sheet.room() == 0 {
            *sheet = Bits::new(self.blocks());
        }
        sheet
    }

    fn blocks(&self) -> u64 {
        self.zones * self.zone_blocks
    }

    /// Bytes of a sheet.
    pub fn sheet_bytes(&self) -> u64 {
        8 * self.blocks().div_ceil(64)
    }

    /// Live blocks of each segment that the mark judges. No job may be running.
    pub fn counts(&self) -> Vec<(ZoneId, u32)> {
        let whole = self.join();
        let count = |zone: ZoneId| {
            let from = u64::from(zone.0) * self.zone_blocks;
            whole.count(from, from + self.zone_blocks) as u32
        };
        self.judged.iter().map(|zone| (*zone, count(*zone))).collect()
    }

    /// The live blocks of a segment, counted from its start. No job may be running.
    pub fn of(&self, zone: ZoneId) -> Bits {
        let start = zone.start(self.zone_blocks).0;
        self.join().part(start, start + self.zone_blocks)
    }

    /// Live blocks of all segments. No job may be running.
    pub fn total(&self) -> u64 {
        self.join().count(0, self.blocks())
    }

    /// All sheets in the first one.
    fn join(&self) -> MutexGuard<'_, Bits> {
        let mut whole = self.sheet(0);
        for sheet in &self.sheets[1..] {
            let sheet = std::mem::take(&mut *sheet.lock().expect("no job panicked"));
            if sheet.room() > 0 {
                whole.set_those_of(&sheet);
            }
        }
        whole
    }
}

/// A set of zones that is asked for each mapping of a map.
pub(super) struct ZoneSet {
    divide: Divide,
    /// For each zone its place in the set's order, plus 1; 0 for those that are not in it.
    places: Vec<u32>,
    members: usize,
}

impl ZoneSet {
    pub fn new(zones: usize, zone_blocks: u64, members: impl Iterator<Item = ZoneId>) -> Self {
        let mut set =
            ZoneSet { divide: Divide::by(zone_blocks), places: vec![0; zones], members: 0 };
        for (place, zone) in (1..).zip(members) {
            set.places[zone.0 as usize] = place;
            set.members += 1;
        }
        set
    }

    pub fn len(&self) -> usize {
        self.members
    }

    /// The block's zone and its place in the set's order, if it is in the set.
    #[inline]
    pub fn find(&self, pba: Pba) -> Option<(ZoneId, usize)> {
        let zone = self.divide.quotient(pba.0);
        let place = *self.places.get(zone as usize)?;
        (place != 0).then(|| (ZoneId(zone as u32), place as usize - 1))
    }
}

/// Division by a number that is known late, without the division's price.
struct Divide {
    divisor: u64,
    /// 2⁶⁴ / divisor, rounded down.
    inverse: u64,
}

impl Divide {
    fn by(divisor: u64) -> Self {
        assert!(divisor > 1, "a zone has several blocks");
        Divide { divisor, inverse: (u128::from(u64::MAX) + 1).div_euclid(divisor.into()) as u64 }
    }

    #[inline]
    fn quotient(&self, value: u64) -> u64 {
        // Too small by at most one: the inverse was rounded down by less than 1, and the value is
        // less than 2⁶⁴, so the product lost less than one quotient.
        let low = ((u128::from(value) * u128::from(self.inverse)) >> 64) as u64;
        low + u64::from(value - low * self.divisor >= self.divisor)
    }
}

#[cfg(test)]
mod tests {
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
    fn counts_equal_those_of_a_set_of_blocks_however_many_sheets() {
        let mut random = Pcg64::seed_from_u64(2);
        for (zone_blocks, marks) in [(33, 60), (64, 60), (100, 60), (700, 60), (700, 3)] {
            let zones = 5;
            let judged = vec![ZoneId(0), ZoneId(2), ZoneId(4)];
            let live = LiveMap::new(zones, zone_blocks, judged.clone(), 3);
            let mut naive = std::collections::BTreeSet::new();
            for index in 0..marks {
                let at = random.next_u64() % (zones as u64 * zone_blocks);
                let blocks = 1 + random.next_u64() % 40;
                live.sheet(index % 3).set_run(at, at + blocks);
                naive.extend(at..at + blocks);
            }
            let expected = judged.iter().map(|zone| {
                let from = u64::from(zone.0) * zone_blocks;
                (*zone, naive.range(from..from + zone_blocks).count() as u32)
            });
            assert_eq!(live.counts(), expected.collect::<Vec<_>>());
            assert_eq!(live.total(), naive.range(..zones as u64 * zone_blocks).count() as u64);
            for zone in (0..zones as u32).map(ZoneId) {
                let from = u64::from(zone.0) * zone_blocks;
                let mut blocks = Vec::new();
                let part = live.of(zone);
                part.runs(0, zone_blocks, |at, run| blocks.extend(from + at..from + at + run));
                assert!(blocks.iter().eq(naive.range(from..from + zone_blocks)), "{zone}");
            }
        }
    }

    #[test]
    fn a_mark_that_met_nothing_finds_nothing_live() {
        let live = LiveMap::new(3, 32, vec![ZoneId(1)], 2);
        assert_eq!(live.counts(), [(ZoneId(1), 0)]);
    }
}
