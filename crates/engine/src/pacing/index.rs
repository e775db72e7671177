//! The reverse index: which leaves of the map refer to the candidates.
//!
//! It has a budget. Where many leaves refer to many candidates, the least promising candidates are
//! given up: fewer of them, never more memory (Mjölnir, INFLOW'15, section 4.2.1, selective segment
//! tracking). The last candidate is always kept: its leaves are at most those of the map. Candidates that
//! are being relocated are kept, too.

use std::collections::{BTreeMap, BTreeSet};

use mjolnir_map::NodeId;
use mjolnir_units::ZoneId;

use crate::pacing::leaf_set::LeafSet;

/// Bytes of memory of a leaf, in a list that is at least half full.
const LEAF_BYTES: u64 = 4;

/// Bytes of memory of each list besides.
const LIST_BYTES: u64 = 64;

/// The leaves that refer to a candidate, and the memory that they take.
#[derive(Default)]
struct Entry {
    leaves: LeafSet,
    /// The lists that they are in. A set cannot tell whether a leaf is the first of its list without
    /// counting the others.
    lists: BTreeSet<u16>,
    bytes: u64,
}

impl Entry {
    /// Adds a leaf. Returns by how many bytes of memory the entry grew.
    fn add(&mut self, leaf: NodeId) -> u64 {
        if !self.leaves.insert(leaf) {
            return 0;
        }
        let more = match self.lists.insert(LeafSet::list_of(leaf)) {
            true => LEAF_BYTES + LIST_BYTES,
            false => LEAF_BYTES,
        };
        self.bytes += more;
        more
    }
}

/// See the module.
pub(crate) struct ReverseIndex {
    entries: BTreeMap<ZoneId, Entry>,
    /// The candidates, the most promising first.
    order: Vec<ZoneId>,
    /// Candidates that are being relocated: the first ones.
    held: Vec<ZoneId>,
    bytes: u64,
    bytes_max: u64,
    /// Candidates given up for want of memory.
    pub dropped: u64,
}

impl ReverseIndex {
    /// Without candidates. Takes at most `bytes` of memory, unless the last candidate needs more.
    pub fn new(bytes: u64) -> Self {
        ReverseIndex {
            entries: BTreeMap::new(),
            order: Vec::new(),
            held: Vec::new(),
            bytes: 0,
            bytes_max: bytes,
            dropped: 0,
        }
    }

    /// Takes other candidates, the most promising first. No leaf is known to refer to them.
    pub fn choose(&mut self, candidates: Vec<ZoneId>) {
        self.entries = candidates.iter().map(|zone| (*zone, Entry::default())).collect();
        self.order = candidates;
        self.held.clear();
        self.bytes = 0;
    }

    /// These, the first ones, are not given up for want of memory until others are held.
    pub fn hold(&mut self, candidates: &[ZoneId]) {
        debug_assert!(self.order.starts_with(candidates), "others are more promising");
        self.held = candidates.to_vec();
    }

    pub fn clear(&mut self) {
        self.choose(Vec::new());
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The candidates, the most promising first.
    pub fn candidates(&self) -> impl Iterator<Item = ZoneId> + '_ {
        self.order.iter().copied()
    }

    /// A leaf refers to a zone, or may refer to it. Nothing happens if the zone is no candidate.
    pub fn add(&mut self, zone: ZoneId, leaf: NodeId) {
        let Some(entry) = self.entries.get_mut(&zone) else { return };
        self.bytes += entry.add(leaf);
        while self.bytes > self.bytes_max
            && let [_, .., last] = self.order[..]
            && !self.held.contains(&last)
        {
            self.remove(last);
            self.dropped += 1;
        }
    }

    /// A leaf may refer to any candidate.
    pub fn add_to_all(&mut self, leaf: NodeId) {
        for zone in self.order.clone() {
            self.add(zone, leaf);
        }
    }

    /// Ends a candidacy.
    pub fn remove(&mut self, zone: ZoneId) {
        if let Some(entry) = self.entries.remove(&zone) {
            self.bytes -= entry.bytes;
            self.order.retain(|other| *other != zone);
            self.held.retain(|other| *other != zone);
        }
    }

    /// The leaves that refer to a candidate, or did, or whose twin does; `None` if it is no candidate any
    /// more.
    pub fn leaves(&self, zone: ZoneId) -> Option<&LeafSet> {
        self.entries.get(&zone).map(|entry| &entry.leaves)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn a_leaf_costs_its_place_and_the_first_of_a_list_that_too() {
        let mut chance = Pcg64::seed_from_u64(5);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let mut index = ReverseIndex::new(u64::MAX);
        index.choose(vec![ZoneId(7)]);
        let mut naive = BTreeSet::new();
        for round in 0..20_000 {
            let id = below([300, 1 << 20, u64::from(u32::MAX)][round % 3]) as u32;
            index.add(ZoneId(7), NodeId(id));
            naive.insert(id);
        }
        let lists: BTreeSet<u32> = naive.iter().map(|id| id >> 16).collect();
        assert_eq!(index.bytes(), 4 * naive.len() as u64 + 64 * lists.len() as u64);
        assert_eq!(index.leaves(ZoneId(7)).unwrap().len(), naive.len() as u64);
        index.remove(ZoneId(7));
        assert_eq!(index.bytes(), 0);
    }

    #[test]
    fn it_gives_up_the_least_promising_and_keeps_to_its_budget() {
        let budget = 2 * LIST_BYTES + 10 * LEAF_BYTES;
        let mut index = ReverseIndex::new(budget);
        index.choose(vec![ZoneId(7), ZoneId(3), ZoneId(5)]);
        for leaf in 0..5 {
            index.add(ZoneId(5), NodeId(leaf));
            index.add(ZoneId(7), NodeId(leaf));
            index.add(ZoneId(4), NodeId(leaf));
        }
        assert_eq!((index.len(), index.bytes()), (3, budget));
        index.add(ZoneId(7), NodeId(4));
        assert_eq!(index.len(), 3, "a leaf counts once");
        index.add(ZoneId(3), NodeId(1));
        assert_eq!(index.candidates().collect::<Vec<_>>(), [ZoneId(7), ZoneId(3)]);
        assert_eq!((index.bytes(), index.dropped), (2 * LIST_BYTES + 6 * LEAF_BYTES, 1));
        for leaf in 0..100 {
            index.add_to_all(NodeId(leaf));
        }
        assert_eq!(index.candidates().collect::<Vec<_>>(), [ZoneId(7)], "the last one stays");
        assert_eq!(index.leaves(ZoneId(7)).unwrap().len(), 100);
        assert_eq!(index.leaves(ZoneId(3)), None);
        index.remove(ZoneId(7));
        index.choose(vec![ZoneId(1), ZoneId(2), ZoneId(3)]);
        index.hold(&[ZoneId(1), ZoneId(2)]);
        (0..100).for_each(|leaf| index.add_to_all(NodeId(leaf)));
        assert_eq!(index.candidates().collect::<Vec<_>>(), [ZoneId(1), ZoneId(2)], "both are held");
        index.remove(ZoneId(1));
        index.hold(&[]);
        index.add(ZoneId(2), NodeId(100));
        assert_eq!(index.len(), 1, "the last one stays, held or not");
        index.remove(ZoneId(2));
        assert!(index.is_empty() && index.bytes() == 0);
    }
}
