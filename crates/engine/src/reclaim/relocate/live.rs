//! Which blocks of a batch's victims are live: those that the mark found live, if these are so still; else those
//! that their referrers name now.

use std::sync::Arc;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Bits, Chunks, Node, NodeId, Twins, differing, word};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::memory::may_hold_leaves;
use crate::reclaim::batch::Batch;
use crate::reclaim::mark::are_many;
use crate::reclaim::mark::live::Live;
use crate::reclaim::victim::Victim;
use crate::yielding::yield_now;

/// Blocks whose bits are set before clients get their turn: some 0.1 ms.
const BLOCKS_A_STEP: u64 = 32_768;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Gives the victims of a batch their live bits. Spares a victim if a leaf that refers to it cannot be read.
    pub(in crate::reclaim) async fn find_live(
        &self,
        batch: &mut Batch,
        marked: &mut Live,
    ) -> Result<(), Error> {
        let still = self.state().still_live(&batch.victims, marked);
        let Some(still) = still else { return self.find_referred(batch).await };
        batch.twins = marked.twins;
        for (victim, live) in batch.victims.iter_mut().zip(still) {
            victim.live = live;
            yield_now().await; // Clients get their turn between steps.
        }
        Ok(())
    }

    /// Gives the victims the bits of the blocks that their referrers name now.
    async fn find_referred(&self, batch: &mut Batch) -> Result<(), Error> {
        let zone_blocks = self.state().space.zone_blocks;
        let twins = may_hold_leaves(&self.inner.options);
        let mut referred = Referred::new(zone_blocks, &batch.victims, twins);
        let mut pending = self.referrers(batch);
        loop {
            let leaves = self.next_referrers(batch, &mut pending);
            if leaves.is_empty() {
                break;
            }
            for id in leaves {
                let noted = self
                    .step(|state| {
                        let leaf = state.map.leaf(id)?;
                        leaf.into_iter().for_each(|leaf| referred.add(id, leaf));
                        Ok(())
                    })
                    .await;
                if let Err(error) = noted {
                    self.spare_referred_by(batch, id, error)?;
                }
            }
            yield_now().await; // Clients get their turn between steps.
        }
        batch.twins = referred.end_twins();
        let mut converted = 0;
        for victim in &mut batch.victims {
            victim.live = referred.of(victim.zone);
            converted += zone_blocks;
            if converted >= BLOCKS_A_STEP {
                converted = 0;
                yield_now().await; // Clients get their turn between steps.
            }
        }
        Ok(())
    }
}

/// Blocks of some victims that leaves refer to.
struct Referred {
    zone_blocks: u64,
    blocks: Chunks<bool>,
    /// Room for the words of a leaf to look at.
    near: Vec<u32>,
    /// Leaves that were noted; none are kept where memory is short.
    twins: Option<Twins<(NodeId, Arc<Node>)>>,
    /// How many were noted, and how many of them had a twin.
    leaves: (u64, u64),
}

impl Referred {
    fn new(zone_blocks: u64, victims: &[Victim], twins: bool) -> Self {
        let extents: Vec<_> =
            victims.iter().map(|victim| (victim.zone.start(zone_blocks).0, zone_blocks)).collect();
        let blocks = Chunks::new(&extents, u64::BITS - 1, false);
        let blocks = blocks.expect("some chunks are large enough");
        let twins = twins.then(Twins::default);
        Referred { zone_blocks, blocks, near: Vec::new(), twins, leaves: (0, 0) }
    }

    /// Notes what a leaf refers to.
    fn add(&mut self, id: NodeId, leaf: Arc<Node>) {
        let words = leaf.entries();
        let mut note = |_: usize, words: &[u64], _: &[u64]| {
            for number in self.blocks.near_words(words, &mut self.near) {
                let word = words[*number as usize];
                if let Some(pba) = word::pba(word) {
                    self.blocks.fill(pba.0, word::blocks(word), true);
                }
            }
        };
        let mut note_all = || words.pieces().for_each(|(at, piece)| note(at, piece, &[]));
        let (Some(twins), Some(key)) = (&mut self.twins, words.key()) else {
            return note_all();
        };
        let twin = twins.find(words, |(_, twin)| twin.entries());
        match twin {
            None => note_all(),
            Some((_, twin)) => differing(words, twin.entries(), note),
        }
        self.leaves.0 += 1;
        self.leaves.1 += u64::from(twin.is_some_and(|(other, _)| *other != id));
        twins.keep(key, (id, leaf));
    }

    /// Lets go of the leaves. Returns whether many of them had a twin.
    fn end_twins(&mut self) -> bool {
        self.twins = None;
        are_many(self.leaves.1, self.leaves.0)
    }

    /// The blocks of a victim, counted from the start of its zone.
    fn of(&self, zone: ZoneId) -> Bits {
        let start = zone.start(self.zone_blocks).0;
        let mut bits = Bits::new(self.zone_blocks);
        (0..self.zone_blocks).filter(|at| self.blocks.get(start + at)).for_each(|at| bits.set(at));
        bits
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_map::Map;
    use mjolnir_units::{Lba, Pba, TreeId};
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::reclaim::mark::scan::scan;
    use crate::reclaim::mark::scan::tests::leaves_of;
    use crate::reclaim::mark::sheets::Sheets;
    use crate::reclaim::mark::zone_set::ZoneSet;

    #[test]
    fn by_the_mark_and_by_a_pass_with_and_without_twins_the_same_blocks_are_live() {
        const ZONE: u64 = 700;
        let mut chance = Pcg64::seed_from_u64(4);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let mut map = Map::new();
        map.create(TreeId(1), 3000);
        for snapshot in 0..40 {
            for _ in 0..if snapshot == 0 { 3000 } else { below(6) } {
                let at = Pba(below(20 * ZONE));
                map.write(TreeId(1), Lba(below(2990)), at, 1 + below(2) * below(9)).unwrap();
            }
            map.snapshot(TreeId(1), TreeId(10 + snapshot));
        }
        let leaves = leaves_of(&mut map);
        let victims = [ZoneId(2), ZoneId(3), ZoneId(11), ZoneId(17)];
        let batch = victims.map(Victim::new);
        let mut beside = Referred::new(ZONE, &batch, true);
        let mut alone = Referred::new(ZONE, &batch, false);
        let mut naive = vec![false; 20 * ZONE as usize + 16];
        let marked = Sheets::new(21, ZONE, victims.to_vec(), 2);
        let candidates = ZoneSet::new(21, ZONE, victims.into_iter());
        let (some, others) = leaves.split_at(leaves.len() / 3);
        let found = [scan(some, &marked, 0, &candidates), scan(others, &marked, 1, &candidates)];
        assert!(found.iter().all(|found| found.twins > 0 && found.twins < found.referring));
        for (id, leaf) in &leaves {
            beside.add(*id, leaf.clone());
            alone.add(*id, leaf.clone());
            for (_, blocks, pba) in leaf.extents() {
                let at = pba.map_or(0, |pba| pba.0 as usize);
                naive[at..at + pba.map_or(0, |_| blocks as usize)].fill(true);
            }
        }
        let marked = marked.counted(&candidates);
        for zone in victims {
            let mut expected = Bits::new(ZONE);
            let of_zone = &naive[(u64::from(zone.0) * ZONE) as usize..][..ZONE as usize];
            (0..ZONE).filter(|at| of_zone[*at as usize]).for_each(|at| expected.set(at));
            assert_eq!(beside.of(zone), expected);
            assert_eq!(alone.of(zone), expected);
            assert_eq!(marked.bits_of(zone), Some(&expected));
        }
        assert!(beside.end_twins() && !alone.end_twins());
    }
}
