//! Sets of leaves.

use mjolnir_map::NodeId;
use roaring::RoaringBitmap;

/// Leaves whose numbers differ in this many low bits alone are in one list.
const LIST_BITS: u32 = 16;

/// A set of leaves of the map, in order: two bytes for each, or a bit for each leaf of the map where they are
/// many. A large part of the leaves refers to most victims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LeafSet {
    ids: RoaringBitmap,
}

impl LeafSet {
    /// Adds one. Whether it was not in the set before.
    pub fn insert(&mut self, leaf: NodeId) -> bool {
        self.ids.insert(leaf.0)
    }

    /// The list that a leaf is in, by its number: each takes memory of its own.
    pub fn list_of(leaf: NodeId) -> u16 {
        (leaf.0 >> LIST_BITS) as u16
    }

    /// Adds all of another one.
    pub fn insert_all(&mut self, other: &LeafSet) {
        self.ids |= &other.ids;
    }

    pub fn contains(&self, leaf: NodeId) -> bool {
        self.ids.contains(leaf.0)
    }

    pub fn len(&self) -> u64 {
        self.ids.len()
    }

    /// Takes the first ones out, `most` of them or as many as there are.
    pub fn take_first(&mut self, most: usize) -> Vec<NodeId> {
        let first = self.ids.iter().take(most).map(NodeId).collect();
        self.ids.remove_smallest(most as u64);
        first
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn it_is_as_a_set_of_numbers() {
        let mut chance = Pcg64::seed_from_u64(5);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut set, mut naive) = (LeafSet::default(), BTreeSet::new());
        for round in 0..3_000 {
            // By turns dense, sparse, and up to the last number that there is.
            let base = [1, 1 << 20, u32::MAX - 100_000][round % 3];
            let some: BTreeSet<u32> =
                (0..below(200)).map(|_| base + below([300, 100_001][round % 2]) as u32).collect();
            let mut others = LeafSet::default();
            for id in &some {
                assert!(others.insert(NodeId(*id)) && !others.insert(NodeId(*id)));
            }
            assert_eq!(others.len(), some.len() as u64);
            set.insert_all(&others);
            naive.extend(some);
            let probe = base + below(300) as u32;
            assert_eq!(set.contains(NodeId(probe)), naive.contains(&probe));
            let most = below(160) as usize;
            let first: Vec<NodeId> = naive.iter().take(most).copied().map(NodeId).collect();
            assert_eq!(set.take_first(most), first);
            first.iter().for_each(|id| assert!(naive.remove(&id.0)));
            assert_eq!(set.len(), naive.len() as u64);
        }
        assert!(set.len() > 1_000, "it was never large");
        assert_eq!(set.take_first(usize::MAX).len(), naive.len());
        assert_eq!(set, LeafSet::default());
    }
}
