//! What of the victims is live: by what the mark found, if that is still so, or by what their referrers
//! name now.

use mjolnir_store::report::ReadPurpose;
use std::sync::Arc;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Bits, Chunks, Node, NodeId, Twins, differing, word};
use mjolnir_store::Error;
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::drive::Engine;
use crate::fault;
use crate::format::record::Record;
use crate::memory::may_hold_leaves;
use crate::reclaim::mark::are_many;
use crate::reclaim::mark::marked::Marked;
use crate::reclaim::relocate::Batch;

use crate::yielding::yield_now;

/// A live run of a victim, with what its summary says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRun {
    pub at: Pba,
    pub blocks: u64,
    pub owner: Owner,
}

/// What a block was first written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub tree: TreeId,
    pub lba: u64,
    pub birth: u64,
}

/// A victim's live runs in order, each block counted once.
#[derive(Debug)]
pub(crate) struct LiveRuns {
    pub runs: Vec<LiveRun>,
    /// About which sequence number the segment was opened at.
    pub opened: Option<u64>,
}

/// Which blocks of some victims are referred to.
pub(crate) struct LiveBlocks {
    zone_blocks: u64,
    live: Chunks<bool>,
    /// Room for the words of a leaf to look at.
    near: Vec<u32>,
    /// Leaves that were noted; none are kept where memory is short.
    twins: Option<Twins<(NodeId, Arc<Node>)>>,
    /// How many were noted, and how many of them had a twin.
    leaves: (u64, u64),
}

impl LiveBlocks {
    fn new(zone_blocks: u64, victims: &[ZoneId], twins: bool) -> Self {
        let extents: Vec<_> =
            victims.iter().map(|zone| (zone.start(zone_blocks).0, zone_blocks)).collect();
        let live = Chunks::new(&extents, u64::BITS - 1, false);
        let live = live.expect("some chunks are large enough");
        let twins = twins.then(Twins::default);
        LiveBlocks { zone_blocks, live, near: Vec::new(), twins, leaves: (0, 0) }
    }

    /// Notes what a mark found live of a victim.
    fn add_marked(&mut self, zone: ZoneId, marked: &Bits) {
        let start = zone.start(self.zone_blocks).0;
        marked.runs(0, self.zone_blocks, |at, blocks| self.live.fill(start + at, blocks, true));
    }

    /// Notes what a leaf refers to.
    fn add(&mut self, id: NodeId, leaf: Arc<Node>) {
        let words = leaf.entries();
        let mut note = |_: usize, words: &[u64], _: &[u64]| {
            for number in self.live.near_words(words, &mut self.near) {
                let word = words[*number as usize];
                if let Some(pba) = word::pba(word) {
                    self.live.fill(pba.0, word::blocks(word), true);
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

    /// Lets go of the leaves; whether many of them had a twin.
    fn end_twins(&mut self) -> bool {
        self.twins = None;
        are_many(self.leaves.1, self.leaves.0)
    }

    /// The live blocks of a victim.
    fn of(&self, zone: ZoneId) -> Vec<bool> {
        let start = zone.start(self.zone_blocks).0;
        (start..start + self.zone_blocks).map(|at| self.live.get(at)).collect()
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The blocks of a batch's victims that are live, and whether many leaves that refer to them have a
    /// twin. A victim that a leaf refers to which cannot be read leaves the batch.
    pub(crate) async fn live_blocks(
        &self,
        batch: &mut Batch,
        marked: &mut Marked,
    ) -> Result<(LiveBlocks, bool), Error> {
        let (zone_blocks, still) = {
            let mut state = self.state();
            (state.space.zone_blocks, state.still_live(&batch.victims, marked))
        };
        let Some(still) = still else {
            return self.live_blocks_now(batch, zone_blocks).await;
        };
        let mut live = LiveBlocks::new(zone_blocks, &batch.victims, false);
        for (zone, still) in batch.victims.iter().zip(&still) {
            live.add_marked(*zone, still);
            yield_now().await; // Clients get their turn between steps.
        }
        Ok((live, marked.twins))
    }

    /// [`live_blocks`](Self::live_blocks) by what their referrers name now.
    async fn live_blocks_now(
        &self,
        batch: &mut Batch,
        zone_blocks: u64,
    ) -> Result<(LiveBlocks, bool), Error> {
        let twins = may_hold_leaves(&self.inner.options);
        let mut live = LiveBlocks::new(zone_blocks, &batch.victims, twins);
        let mut pending = self.referrers(batch);
        loop {
            let leaves = self.next_referrers(batch, &mut pending);
            if leaves.is_empty() {
                let twins = live.end_twins();
                return Ok((live, twins));
            }
            for id in leaves {
                let noted = self
                    .step(|state| {
                        let leaf = state.map.leaf(id)?;
                        leaf.into_iter().for_each(|leaf| live.add(id, leaf));
                        Ok(())
                    })
                    .await;
                if let Err(error) = noted {
                    self.spare_what_refers(batch, id, error)?;
                }
            }
            yield_now().await; // Clients get their turn between steps.
        }
    }

    /// What of a victim is live, with its owners out of the headers of its groups.
    pub(crate) async fn live_runs(
        &self,
        zone: ZoneId,
        live: &LiveBlocks,
    ) -> Result<LiveRuns, Error> {
        let mut live = live.of(zone);
        let (segment, zone_blocks) = {
            let state = self.state();
            (state.space.get(zone).clone(), state.space.zone_blocks)
        };
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        let groups = self
            .walk_groups(ReadPurpose::Reclaim, zone, segment.incarnation, u64::from(end))
            .await?;
        let opened = groups.first().map(|group| group.durable);
        let start = zone.start(zone_blocks);
        let live_blocks = live.iter().filter(|live| **live).count();
        let mut runs: Vec<LiveRun> = Vec::with_capacity(live_blocks);
        for group in groups {
            let mut offset = u64::from(group.offset) + 1;
            for (sequence, record) in &group.records {
                let (tree, lba, birth) = match record {
                    Record::Write { tree, lba, .. } => (*tree, *lba, *sequence),
                    Record::Moved { tree, lba, birth, .. } => (*tree, *lba, *birth),
                    _ => continue,
                };
                for index in 0..record.payload_blocks() {
                    let at = offset + index;
                    if !std::mem::take(&mut live[at as usize]) {
                        continue;
                    }
                    let owner = Owner { tree, lba: lba + index, birth };
                    match runs.last_mut() {
                        Some(run)
                            if run.at.plus(run.blocks) == start.plus(at)
                                && run.owner.tree == tree
                                && run.owner.birth == birth
                                && run.owner.lba + run.blocks == owner.lba =>
                        {
                            run.blocks += 1;
                        }
                        _ => runs.push(LiveRun { at: start.plus(at), blocks: 1, owner }),
                    }
                }
                offset += record.payload_blocks();
            }
        }
        if let Some(at) = live.iter().position(|live| *live) {
            return Err(fault::damaged(format!(
                "block {at} of segment {} is referred to, but the segment's summary does not know it; \
                 the segment is left as it is; run `check`",
                zone.0
            )));
        }
        runs.shrink_to_fit();
        Ok(LiveRuns { runs, opened })
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_map::Map;
    use mjolnir_units::Lba;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::reclaim::mark::live::Sheets;
    use crate::reclaim::mark::scan::scan;
    use crate::reclaim::mark::scan::tests::leaves_of;
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
        let mut beside = LiveBlocks::new(ZONE, &victims, true);
        let mut alone = LiveBlocks::new(ZONE, &victims, false);
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
        let mut by_mark = LiveBlocks::new(ZONE, &victims, false);
        victims.iter().for_each(|zone| by_mark.add_marked(*zone, &marked.candidates[zone]));
        for zone in victims {
            let expected = &naive[(u64::from(zone.0) * ZONE) as usize..][..ZONE as usize];
            assert_eq!(beside.of(zone), expected);
            assert_eq!(alone.of(zone), expected);
            assert_eq!(by_mark.of(zone), expected);
        }
        assert!(beside.end_twins() && !alone.end_twins());
    }
}
