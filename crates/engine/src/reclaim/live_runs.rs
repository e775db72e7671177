//! What of the victims is live, by what their referrers name now.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::word;
use mjolnir_store::Error;
use mjolnir_units::{Pba, TreeId, ZoneId};

use crate::engine::Engine;
use crate::fault;
use crate::format::record::Record;
use crate::reclaim::live::ZoneSet;
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
    victims: ZoneSet,
    /// For each victim, in the order of the set.
    live: Vec<Vec<bool>>,
}

impl LiveBlocks {
    fn new(zones: usize, zone_blocks: u64, victims: &[ZoneId]) -> Self {
        LiveBlocks {
            zone_blocks,
            victims: ZoneSet::new(zones, zone_blocks, victims.iter().copied()),
            live: vec![vec![false; zone_blocks as usize]; victims.len()],
        }
    }

    /// Notes what a leaf refers to. An extent never lies in two segments, since records lie between
    /// the payloads of any two.
    fn add(&mut self, entries: &[u64]) {
        for entry in entries {
            let Some(pba) = word::pba(*entry) else { continue };
            let Some((zone, place)) = self.victims.find(pba) else { continue };
            let from = (pba.0 - zone.start(self.zone_blocks).0) as usize;
            match word::blocks(*entry) as usize {
                1 => self.live[place][from] = true,
                blocks => self.live[place][from..][..blocks].fill(true),
            }
        }
    }

    /// The live blocks of a victim, which is asked for once.
    fn take(&mut self, zone: ZoneId) -> Vec<bool> {
        let (_, place) = self.victims.find(zone.start(self.zone_blocks)).expect("it is a victim");
        std::mem::take(&mut self.live[place])
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The blocks of a batch's victims that their referrers name now. A victim that a leaf refers to
    /// which cannot be read leaves the batch.
    pub(super) async fn live_blocks(&self, batch: &mut Batch) -> Result<LiveBlocks, Error> {
        let mut live = {
            let state = self.state();
            LiveBlocks::new(state.space.segments.len(), state.space.zone_blocks, &batch.victims)
        };
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
                        leaf.iter().for_each(|leaf| live.add(leaf.entries()));
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
        live: &mut LiveBlocks,
    ) -> Result<(Vec<LiveRun>, Option<u64>), Error> {
        let mut live = live.take(zone);
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
                "block {at} of {zone} is referred to, but the segment's summary does not know it; \
                 the segment is left as it is; run `check`"
            )));
        }
        Ok((runs, opened))
    }
}
