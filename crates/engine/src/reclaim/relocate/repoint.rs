//! Repoint: the leaves that refer to victims name the new places.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{NodeId, Relocations, Repointer};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::pacing::LeafSet;
use crate::reclaim::relocate::Batch;
use crate::space::Claim;
use crate::yielding::yield_now;

/// Leaves handled before clients get their turn.
const LEAVES_A_STEP: usize = 64;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Replaces every reference into the batch's victims. Ends in a step in which no touched leaf is
    /// unchecked and every leaf of the index has been repointed. A victim of which something is left
    /// that did not move leaves the batch. `twins`: see [`Repointer::new`].
    pub(crate) async fn repoint(
        &self,
        batch: &mut Batch,
        moves: &Relocations,
        twins: bool,
    ) -> Result<(), Error> {
        let mut repointer = Repointer::new(moves, twins);
        let mut pending = self.referrers(batch);
        loop {
            let leaves = self.next_referrers(batch, &mut pending);
            if leaves.is_empty() {
                return Ok(());
            }
            for (index, id) in leaves.iter().copied().enumerate() {
                self.make_room_for_leaves().await?;
                self.load_ahead(&leaves, index).await;
                let repointed = self
                    .step(|state| {
                        state.map.prefetch_leaves(&leaves[index + 1..]);
                        let done = state.map.repoint_by(&mut repointer, id)?;
                        state.reclaim.counters.leaves_repointed += u64::from(done.blocks > 0);
                        let left: BTreeSet<ZoneId> =
                            done.left.iter().map(|pba| state.space.zone_of(*pba)).collect();
                        Ok(left)
                    })
                    .await;
                match repointed {
                    Ok(left) => {
                        for zone in left {
                            let why = "a leaf of the map still refers to blocks that did not move";
                            self.spare(batch, zone, &Error::new(ErrorKind::Damaged, why));
                        }
                    }
                    Err(error) => self.spare_what_refers(batch, id, error)?,
                }
            }
            yield_now().await; // Clients get their turn between steps.
        }
    }

    /// Takes a checkpoint if more dirty leaves might leave no room for one: blocks that many
    /// diverged snapshots share are named by as many leaves. What is repointed so far may stay so.
    async fn make_room_for_leaves(&self) -> Result<(), Error> {
        self.admit_nodes().await;
        if !self.state().space.is_crowded(Claim::Reclaim) {
            return Ok(());
        }
        self.checkpoint_within_task().await?;
        if self.state().space.is_crowded(Claim::Reclaim) {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "there is no room to write all the leaves of the map that name the segment",
            ));
        }
        Ok(())
    }

    /// The leaves that may refer to a batch's victims: all are to be handled.
    pub(crate) fn referrers(&self, batch: &Batch) -> LeafSet {
        let state = self.state();
        let index = &state.reclaim.index;
        // Without its index, nothing would seem to refer to a victim.
        let mut all = LeafSet::default();
        for zone in &batch.victims {
            all.insert_all(index.leaves(*zone).expect("a victim stays a candidate"));
        }
        all
    }

    /// Takes the next leaves out of `pending`, to which those are added that were touched since.
    /// Empty only if every leaf that may refer to a victim was handled after its last change.
    pub(crate) fn next_referrers(&self, batch: &Batch, pending: &mut LeafSet) -> Vec<NodeId> {
        let mut state = self.state();
        let touched = state.index_touched();
        let index = &state.reclaim.index;
        let leaves: Vec<_> = batch
            .victims
            .iter()
            .map(|zone| index.leaves(*zone).expect("a victim stays a candidate"))
            .collect();
        for id in touched {
            if leaves.iter().any(|leaves| leaves.contains(id)) {
                pending.insert(id);
            }
        }
        pending.take_first(LEAVES_A_STEP)
    }

    /// Walks the whole map and asserts that nothing refers to the zone.
    pub(crate) async fn prove_unreferenced(&self, zone: ZoneId) -> Result<(), Error> {
        // A walk with client operations in between could miss a reference that moves behind it;
        // what is absent is loaded first, then one step without an `.await` sees everything.
        let mut kept = Vec::new();
        loop {
            let outcome = {
                let state = self.state();
                let blocks = state.space.zone_blocks;
                state.map.find_reference(|pba| pba.zone(blocks) == zone)
            };
            match outcome {
                Ok(None) => return Ok(()),
                Ok(Some((leaf, pba))) => {
                    panic!("{zone} is given up, but leaf {} refers to {pba}", leaf.0)
                }
                Err(absent) => kept.push(self.load_node(absent.0).await?),
            }
        }
    }
}

impl State {
    /// Checks leaves that were created or gained references since last asked; those that refer to
    /// a candidate join its index. Returns them all.
    fn index_touched(&mut self) -> Vec<NodeId> {
        let touched = self.map.take_touched();
        let zone_blocks = self.space.zone_blocks;
        for id in &touched {
            match self.map.leaf(*id) {
                Ok(None) => {}
                Ok(Some(leaf)) => {
                    for pba in leaf.extents().filter_map(|(_, _, pba)| pba) {
                        let zone = pba.zone(zone_blocks);
                        self.reclaim.index.add(zone, *id);
                    }
                }
                // Dropped from memory since: it may refer to any, and is loaded when handled.
                Err(_) => self.reclaim.index.add_to_all(*id),
            }
        }
        touched
    }
}
