//! The live runs of a victim, with their owners: out of the headers of the victim's groups, which are its summary.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;
use mjolnir_store::report::ReadPurpose;

use crate::drive::Engine;
use crate::fault;
use crate::format::record::Record;
use crate::reclaim::victim::{LiveRun, LiveRuns, Owner, Victim};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The runs of a victim's live blocks, with their owners.
    pub(in crate::reclaim) async fn live_runs(&self, victim: &Victim) -> Result<LiveRuns, Error> {
        let zone = victim.zone;
        let (segment, zone_blocks) = {
            let state = self.state();
            (state.space.get(zone).clone(), state.space.zone_blocks)
        };
        let mut live = vec![false; zone_blocks as usize];
        let mut live_blocks = 0;
        victim.live.runs(0, zone_blocks, |at, blocks| {
            live[at as usize..(at + blocks) as usize].fill(true);
            live_blocks += blocks as usize;
        });
        let end = if segment.footer > 0 { segment.footer } else { segment.used };
        let groups = self
            .walk_groups(ReadPurpose::Reclaim, zone, segment.incarnation, u64::from(end))
            .await?;
        let opened = groups.first().map(|group| group.durable);
        let start = zone.start(zone_blocks);
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
