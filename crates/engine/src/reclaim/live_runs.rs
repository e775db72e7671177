//! What of the victims is live, by what their referrers name now.

use std::sync::Arc;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Chunks, Node, Twins, differing, word};
use mjolnir_store::Error;
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::engine::Engine;
use crate::fault;
use crate::format::record::Record;
use crate::reclaim::relocate::{Batch, yield_now};

/// A live run of a victim, with what its summary says of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRun {
    pub at: Pba,
    pub blocks: u64,
    pub owner: Owner,
}

/// What a block was first written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub tree: TreeId,
    pub lba: u64,
    pub birth: u64,
}

/// Which blocks of some victims are referred to.
pub(super) struct LiveBlocks {
    zone_blocks: u64,
    live: Chunks<bool>,
    /// Room for the words of a leaf to look at.
    near: Vec<u32>,
    /// Leaves that were noted.
    twins: Twins<Arc<Node>>,
    /// Of all leaves that were noted, those that had a twin.
    leaves: (u64, u64),
}

impl LiveBlocks {
    fn new(zone_blocks: u64, victims: &[ZoneId]) -> Self {
        let extents: Vec<_> =
            victims.iter().map(|zone| (zone.start(zone_blocks).0, zone_blocks)).collect();
        let live = Chunks::new(&extents, u64::BITS - 1, false);
        let live = live.expect("some chunks are large enough");
        LiveBlocks { zone_blocks, live, near: Vec::new(), twins: Twins::default(), leaves: (0, 0) }
    }

    /// Notes what a leaf refers to.
    fn add(&mut self, leaf: Arc<Node>) {
        let mut note = |_: usize, words: &[u64], _: &[u64]| {
            for number in self.live.near_words(words, &mut self.near) {
                let word = words[*number as usize];
                if let Some(pba) = word::pba(word) {
                    self.live.fill(pba.0, word::blocks(word), true);
                }
            }
        };
        let Some(key) = leaf.entries().first().copied() else { return };
        let twin = self.twins.find(key);
        match twin {
            None => note(0, leaf.entries(), &[]),
            Some(twin) => differing(leaf.entries(), twin.entries(), note),
        }
        self.leaves = (self.leaves.0 + 1, self.leaves.1 + u64::from(twin.is_some()));
        self.twins.keep(key, leaf);
    }

    /// Lets go of the leaves; whether many of them had a twin.
    pub fn end_twins(&mut self) -> bool {
        self.twins = Twins::default();
        self.leaves.1 > self.leaves.0 / 4
    }

    /// The live blocks of a victim.
    fn of(&self, zone: ZoneId) -> Vec<bool> {
        let start = zone.start(self.zone_blocks).0;
        (start..start + self.zone_blocks).map(|at| self.live.get(at)).collect()
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The blocks of a batch's victims that their referrers name now. A victim that a leaf refers to
    /// which cannot be read leaves the batch.
    pub(super) async fn live_blocks(&self, batch: &mut Batch) -> Result<LiveBlocks, Error> {
        let mut live = LiveBlocks::new(self.state().space.zone_blocks, &batch.victims);
        let mut pending = self.referrers(batch);
        loop {
            let leaves = self.next_referrers(batch, &mut pending);
            if leaves.is_empty() {
                return Ok(live);
            }
            for id in leaves {
                let noted = self
                    .step(|state| {
                        let leaf = state.map.leaf(id)?;
                        leaf.into_iter().for_each(|leaf| live.add(leaf));
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

    /// A victim's live blocks in order, each counted once; and about which sequence number the
    /// segment was opened at.
    pub(super) async fn live_runs(
        &self,
        zone: ZoneId,
        live: &LiveBlocks,
    ) -> Result<(Vec<LiveRun>, Option<u64>), Error> {
        let mut live = live.of(zone);
        let (segment, zone_blocks) = {
            let state = self.state();
            (state.space.get(zone).clone(), state.space.zone_blocks)
        };
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        let groups = self.walk_groups(zone, segment.incarnation, u64::from(end)).await?;
        let opened = groups.first().map(|group| group.durable);
        let start = zone.start(zone_blocks);
        let mut runs: Vec<LiveRun> = Vec::new();
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
        Ok((runs, opened))
    }
}
