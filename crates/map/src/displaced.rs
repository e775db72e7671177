//! The blocks displaced since a mark found them live.
//!
//! The live blocks of a mark only become fewer: a new reference is to a freshly written block, or
//! to a block that has a reference already. A block that ceases to be live was displaced, which is
//! recorded here.

use mjolnir_units::Pba;

use crate::{Bits, Map, word};

/// The displaced blocks of the watched address regions.
#[derive(Default)]
pub(crate) struct Displaced {
    region_blocks: u64,
    /// For each region: its index among the watched regions plus 1; 0 if not watched.
    places: Vec<u32>,
    /// For each watched region, a bit for each of its blocks.
    bits: Vec<Bits>,
    /// Whether a whole subtree was dropped without a look at its addresses.
    blindly: bool,
}

impl Displaced {
    /// Notes that blocks `lo..hi` of a leaf are about to be displaced. `words` are the leaf's words
    /// with these blocks; the first word begins with block `start`.
    #[inline]
    pub fn note(&mut self, words: impl Iterator<Item = u64>, start: u64, lo: u64, hi: u64) {
        if self.places.is_empty() {
            return;
        }
        let mut at = start;
        for word in words {
            let end = at + word::blocks(word);
            if let Some(pba) = word::pba(word) {
                let from = lo.max(at);
                self.note_run(pba.plus(from - at), hi.min(end) - from);
            }
            at = end;
        }
    }

    /// Notes a run, which may continue in the next region.
    fn note_run(&mut self, pba: Pba, blocks: u64) {
        let (mut at, end) = (pba.0, pba.0 + blocks);
        while at < end {
            let (region, from) = (at / self.region_blocks, at % self.region_blocks);
            let to = self.region_blocks.min(from + (end - at));
            if let Some(place @ 1..) = self.places.get(region as usize) {
                self.bits[*place as usize - 1].set_run(from, to);
            }
            at += to - from;
        }
    }

    /// Notes that a whole subtree was dropped.
    pub fn note_blindly(&mut self) {
        self.blindly = true;
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let bits: usize = self.bits.iter().map(Bits::bytes).sum();
        self.places.capacity() * size_of::<u32>() + self.bits.capacity() * size_of::<Bits>() + bits
    }
}

impl Map {
    /// Starts to record displaced blocks of `regions`, each of `region_blocks` blocks (at least
    /// one), and forgets earlier records. The address space has `all` regions.
    pub fn watch_displaced(&mut self, all: usize, region_blocks: u64, regions: &[u32]) {
        let mut watch = Displaced { region_blocks, ..Displaced::default() };
        if !regions.is_empty() {
            watch.places = vec![0; all];
            watch.bits = vec![Bits::new(region_blocks); regions.len()];
            for (place, region) in (1..).zip(regions) {
                watch.places[*region as usize] = place;
            }
        }
        self.displaced = watch;
    }

    /// The blocks of a region displaced since its watch began: a bit for each, from its start on.
    /// `None` if the region is not watched, or a whole subtree was dropped.
    pub fn displaced(&self, region: u32) -> Option<&Bits> {
        let place =
            self.displaced.places.get(region as usize).filter(|_| !self.displaced.blindly)?;
        Some(&self.displaced.bits[place.checked_sub(1)? as usize])
    }

    /// A counter that grows whenever a block gains or may gain another reference: by snapshots,
    /// restores, clones and moves, and by a write to a shared leaf, which copies the whole leaf.
    pub fn referred_again(&self) -> u64 {
        self.table.again
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use mjolnir_units::{Lba, TreeId};
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    const TREE: TreeId = TreeId(1);
    const BLOCKS: u64 = 600;
    const REGION: u64 = 700;
    const REGIONS: u64 = 30;
    const WATCHED: [u32; 4] = [29, 3, 4, 0];

    fn watch(map: &mut Map) {
        map.watch_displaced(REGIONS as usize, REGION, &WATCHED);
    }

    /// Where each block of the tree lies.
    fn places(map: &Map) -> Vec<Option<u64>> {
        let runs = map.runs_within(TREE, Lba(0), BLOCKS, usize::MAX).unwrap();
        let place = |run: &crate::Run, i: u64| run.pba.map(|pba| pba.0 + i);
        runs.iter().flat_map(|run| (0..run.blocks).map(move |i| place(run, i))).collect()
    }

    #[test]
    fn what_writes_and_trims_displace_is_remembered() {
        let mut chance = Pcg64::seed_from_u64(11);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut all, mut blind) = (0, 0);
        for round in 0..60 {
            let mut map = Map::new().with_node_sizes(16, 4);
            map.create(TREE, BLOCKS);
            for lba in 0..BLOCKS {
                let pba = Pba(below(REGIONS * REGION));
                map.write(TREE, Lba(lba), pba, 1).unwrap();
            }
            watch(&mut map);
            let mut expected = vec![false; 60 * REGION as usize];
            for _ in 0..200 {
                if below(20) == 0 {
                    map.snapshot(TREE, TreeId(2 + below(1 << 31) as u32));
                }
                let (lba, blocks) = (below(BLOCKS - 60), 1 + below(2) * below(1 + round % 2 * 59));
                for at in places(&map)[lba as usize..][..blocks as usize].iter().flatten() {
                    expected[*at as usize] = true;
                }
                match below(4) {
                    0 => map.trim(TREE, Lba(lba), blocks).unwrap(),
                    // Addresses at the border of two regions, or past the last one.
                    1 => map.write(TREE, Lba(lba), Pba(REGION * below(40) + 695), blocks).unwrap(),
                    _ => map.write(TREE, Lba(lba), Pba(below(REGIONS * REGION)), blocks).unwrap(),
                }
            }
            for region in 0..REGIONS as u32 {
                let Some(bits) = map.displaced(region) else {
                    blind += usize::from(map.displaced.blindly);
                    assert!(map.displaced.blindly && round % 2 > 0 || !WATCHED.contains(&region));
                    continue;
                };
                let is_set = |at: u64| Bits::count_in_any(from_ref(bits), at, at + 1) > 0;
                let expected =
                    &expected[(u64::from(region) * REGION) as usize..][..REGION as usize];
                assert!((0..REGION).map(is_set).eq(expected.iter().copied()), "round {round}");
                all += expected.iter().filter(|displaced| **displaced).count();
            }
        }
        assert!(all > 30 * 20 && blind > 0, "{all} displaced, {blind} regions not known");
    }

    #[test]
    fn what_goes_as_a_whole_is_not_looked_at() {
        let mut map = Map::new();
        map.create(TREE, BLOCKS);
        map.write(TREE, Lba(0), Pba(0), BLOCKS).unwrap();
        assert_eq!((map.displaced(0), map.displaced.bytes()), (None, 0), "nothing is watched");
        let count = |map: &Map| Some(Bits::count_in_any(from_ref(map.displaced(0)?), 0, REGION));
        type Change = (bool, fn(&mut Map));
        let changes: [Change; 6] = [
            (true, |map| map.move_range(TREE, Lba(0), TreeId(2), Lba(0), 100).unwrap()),
            (true, |map| map.clone_range(TREE, Lba(300), TREE, Lba(0), 100).unwrap()),
            (false, |map| map.resize(TREE, 400).unwrap()),
            (true, |map| map.replace(TREE, TreeId(2))),
            (false, |map| map.drop_tree(TREE)),
            (true, |map| map.snapshot(TreeId(2), TREE)),
        ];
        map.snapshot(TREE, TreeId(2));
        for (number, (again, change)) in changes.iter().enumerate() {
            watch(&mut map);
            assert_eq!(count(&map), Some(0));
            let before = map.referred_again();
            change(&mut map);
            assert_eq!(map.referred_again() > before, *again, "change {number}");
            // A move displaces the blocks at its source; a clone displaces those at its
            // destination.
            let expected = [Some(100), Some(0), None, None, None, Some(0)][number];
            assert_eq!(count(&map), expected, "change {number}");
        }
        map.watch_displaced(REGIONS as usize, REGION, &[]);
        assert_eq!((map.displaced(3), map.displaced.bytes()), (None, 0));
    }
}
