//! Scans frozen leaves: which blocks they refer to, and whether any lies in a candidate.

use std::ops::Range;
use std::sync::Arc;

use mjolnir_map::{Node, NodeId, PREFETCH_AHEAD, Twins, differing, prefetch, prefetch_line, word};
use mjolnir_units::ZoneId;

use crate::reclaim::mark::NODES_A_STEP;
use crate::reclaim::mark::mapped::{Mapped, set_all};
use crate::reclaim::mark::sheets::Sheets;
use crate::reclaim::mark::zone_set::ZoneSet;

/// Leaf words tested together for references to candidates.
const WORDS_AT_ONCE: usize = 8;

/// What one job found.
pub(in crate::reclaim) struct Found {
    /// Candidates, and leaves that refer to them, or whose twin does: each pair once.
    pub referrers: Vec<(ZoneId, NodeId)>,
    pub(super) mapped: Mapped,
    pub leaves: u64,
    /// Words of all leaves, holes and what they have in common with others included.
    pub words: u64,
    /// Leaves that refer to candidates, and how many of them had a twin.
    pub referring: u64,
    pub twins: u64,
}

/// A leaf that a job is done with.
#[derive(Clone)]
struct Scanned {
    /// Which of the job's leaves.
    number: usize,
    mapped: Mapped,
    /// Its candidates, among those that the job found.
    referrers: Range<usize>,
}

/// The candidates that one leaf after another refers to.
struct Referrers<'a> {
    candidates: &'a ZoneSet,
    found: Vec<(ZoneId, NodeId)>,
    /// For each found the candidate's place in the set.
    places: Vec<usize>,
    /// For each candidate the last leaf, counted from 1, that was found to refer to it.
    known: Vec<usize>,
}

impl<'a> Referrers<'a> {
    fn new(candidates: &'a ZoneSet) -> Self {
        let known = vec![0; candidates.len()];
        Referrers { candidates, found: Vec::new(), places: Vec::new(), known }
    }

    /// Leaf `number` refers to the candidates that its twin refers to, and to no others but by words that differ.
    fn add_those_of_twin(&mut self, leaf: NodeId, number: usize, twin: Range<usize>) {
        for index in twin {
            let (zone, place) = (self.found[index].0, self.places[index]);
            self.known[place] = number + 1;
            self.found.push((zone, leaf));
            self.places.push(place);
        }
    }

    /// Leaf `number` has these words, among others.
    fn add(&mut self, leaf: NodeId, number: usize, words: &[u64]) {
        if self.known.is_empty() {
            return;
        }
        // Few words refer to candidates. Several are tested at once, without a branch that depends on one.
        let near = words.chunks(WORDS_AT_ONCE).filter(|words| self.candidates.may_find_any(words));
        for pba in near.flatten().filter_map(|word| word::pba(*word)) {
            if let Some((zone, place)) = self.candidates.find(pba)
                && std::mem::replace(&mut self.known[place], number + 1) != number + 1
            {
                self.found.push((zone, leaf));
                self.places.push(place);
            }
        }
    }
}

/// The pure part: runs on any thread, over frozen leaves. `job` is the job's number.
pub(in crate::reclaim) fn scan(
    leaves: &[(NodeId, Arc<Node>)],
    live: &Sheets,
    job: usize,
    candidates: &ZoneSet,
) -> Found {
    let mut sheet = live.sheet(job);
    let mut referrers = Referrers::new(candidates);
    let mut twins: Twins<Scanned> = Twins::default();
    let (mut sum, mut all_words, mut referring, mut with_twin) = (Mapped::default(), 0, 0, 0);
    for (number, (id, leaf)) in leaves.iter().enumerate() {
        // Leaves lie in the cache of the processor that made this job one of their holders. They are asked for
        // while others are worked on, and so are the first words of the next leaf, by which its twin is found.
        // The words that follow these, up to the first edit, are asked for below.
        leaves.get(number + PREFETCH_AHEAD).into_iter().for_each(|(_, later)| prefetch(later));
        let next = leaves.get(number + 1).and_then(|(_, next)| next.entries().pieces().next());
        let next = next.map_or(&[][..], |(_, words)| words);
        prefetch_line(next);
        let (words, from) = (leaf.entries(), referrers.found.len());
        all_words += words.len() as u64;
        let Some(key) = words.key() else { continue };
        let twin = twins.find(words, |twin| leaves[twin.number].1.entries());
        let has_twin = twin.is_some();
        let mapped = match twin.cloned() {
            None => words.pieces().fold(Mapped::default(), |mapped, (at, piece)| {
                referrers.add(*id, number, piece);
                mapped + set_all(&mut sheet, piece, next.get(at..).unwrap_or_default())
            }),
            Some(twin) => {
                referrers.add_those_of_twin(*id, number, twin.referrers);
                let mut mapped = twin.mapped;
                differing(words, leaves[twin.number].1.entries(), |_, piece, instead_of| {
                    referrers.add(*id, number, piece);
                    mapped = mapped + set_all(&mut sheet, piece, &[]) - Mapped::of(instead_of);
                });
                mapped
            }
        };
        sum = sum + mapped;
        let referrers = from..referrers.found.len();
        referring += u64::from(!referrers.is_empty());
        with_twin += u64::from(!referrers.is_empty() && has_twin);
        twins.keep(key, Scanned { number, mapped, referrers });
    }
    Found {
        referrers: referrers.found,
        mapped: sum,
        leaves: leaves.len() as u64,
        words: all_words,
        referring,
        twins: with_twin,
    }
}

/// The inner loop of a mark alone, for measuring it over a map without a store.
#[doc(hidden)]
pub struct MarkLoop {
    live: Sheets,
    candidates: ZoneSet,
}

impl MarkLoop {
    /// Map nodes that a store visits in one go.
    pub const NODES_A_STEP: usize = NODES_A_STEP;

    /// For a device of `zones` zones of `zone_blocks` blocks; no block is live yet.
    pub fn new(zones: usize, zone_blocks: u64) -> Self {
        let judged = (0..zones as u32).map(ZoneId).collect();
        MarkLoop {
            live: Sheets::new(zones, zone_blocks, judged, 1),
            candidates: ZoneSet::new(zones, zone_blocks, std::iter::empty()),
        }
    }

    /// Marks what leaves refer to, as a store does; returns how many mappings they have.
    pub fn scan(&self, leaves: &[(NodeId, Arc<Node>)]) -> u64 {
        scan(leaves, &self.live, 0, &self.candidates).mapped.words
    }

    /// Live blocks in the end.
    pub fn live_blocks(self) -> u64 {
        self.live.counted(&self.candidates).blocks
    }
}

#[cfg(test)]
pub(in crate::reclaim) mod tests {
    use std::collections::BTreeSet;

    use mjolnir_map::Map;
    use mjolnir_units::{Lba, Pba, TreeId};
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// All that a mark hands out.
    pub fn leaves_of(map: &mut Map) -> Vec<(NodeId, Arc<Node>)> {
        map.begin_mark();
        let mut leaves = Vec::new();
        loop {
            let step = map.mark_step(100);
            leaves.extend(step.leaves);
            if step.done {
                return leaves;
            }
        }
    }

    #[test]
    fn a_leaf_and_its_twins_are_marked_as_each_alone_would_be() {
        const ZONES: usize = 1 << 11;
        const ZONE: u64 = 1 << 5;
        let mut chance = Pcg64::seed_from_u64(3);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let mut map = Map::new();
        map.create(TreeId(1), 4000);
        for snapshot in 0..60 {
            for _ in 0..if snapshot == 0 { 3000 } else { 1 + below(8) } {
                let (lba, blocks) = (below(3990), 1 + below(2) * below(9));
                if below(20) == 0 {
                    map.trim(TreeId(1), Lba(lba), blocks).unwrap();
                } else {
                    map.write(TreeId(1), Lba(lba), Pba(below((ZONES as u64 - 1) * ZONE)), blocks)
                        .unwrap();
                }
            }
            map.snapshot(TreeId(1), TreeId(10 + snapshot));
        }
        let leaves = leaves_of(&mut map);
        let live = Sheets::new(ZONES, ZONE, (0..ZONES as u32).map(ZoneId).collect(), 1);
        let candidates = ZoneSet::new(ZONES, ZONE, (0..40).map(|i| ZoneId(i * 37)));
        let found = scan(&leaves, &live, 0, &candidates);

        let alone = Sheets::new(ZONES, ZONE, (0..ZONES as u32).map(ZoneId).collect(), 1);
        let (mut referrers, mut mapped) = (Vec::new(), Mapped::default());
        for leaf in &leaves {
            let found = scan(std::slice::from_ref(leaf), &alone, 0, &candidates);
            referrers.extend(found.referrers);
            mapped = mapped + found.mapped;
        }
        let [live, alone] = [live, alone].map(|sheets| sheets.counted(&candidates));
        assert_eq!((live.blocks, live.counts), (alone.blocks, alone.counts));
        assert_eq!((found.mapped, found.leaves), (mapped, leaves.len() as u64));
        // Some are told of a leaf because its twin refers to them; each once.
        let told: BTreeSet<_> = found.referrers.iter().copied().collect();
        assert_eq!(told.len(), found.referrers.len());
        assert!(referrers.iter().all(|pair| told.contains(pair)));
        assert!(told.len() < referrers.len() * 5 / 4, "{} for {}", told.len(), referrers.len());
        assert!(told.len() > referrers.len(), "no leaf had a twin that differed");
    }

    #[test]
    fn each_candidate_that_a_leaf_refers_to_is_told_once() {
        const ZONE: u64 = 1 << 12;
        let mut map = Map::new();
        map.create(TreeId(1), 4000);
        for lba in 0..4000 {
            // By turns: two candidates, and another segment.
            map.write(TreeId(1), Lba(lba), Pba((1 + lba % 3) * ZONE + lba), 1).unwrap();
        }
        let leaves = leaves_of(&mut map);
        assert!(leaves.len() > 5);
        let live = Sheets::new(8, ZONE, vec![ZoneId(1), ZoneId(2), ZoneId(3)], 1);
        let candidates = ZoneSet::new(8, ZONE, [ZoneId(3), ZoneId(5), ZoneId(1)].into_iter());
        let found = scan(&leaves, &live, 0, &candidates);
        let mut expected: Vec<_> =
            leaves.iter().flat_map(|(id, _)| [(ZoneId(1), *id), (ZoneId(3), *id)]).collect();
        let mut referrers = found.referrers;
        referrers.sort();
        expected.sort();
        assert_eq!(referrers, expected);
        assert_eq!((found.leaves, found.mapped.words), (leaves.len() as u64, 4000));
        assert_eq!(live.counted(&candidates).blocks, 4000);
    }
}
