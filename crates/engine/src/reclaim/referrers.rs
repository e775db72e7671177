//! The leaves that refer to a batch's victims, each to be handled after its last change.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;

use crate::drive::{Engine, State};
use crate::pacing::LeafSet;
use crate::reclaim::batch::Batch;

/// Leaves handled before clients get their turn.
const LEAVES_A_STEP: usize = 64;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The leaves that may refer to a batch's victims: all are to be handled.
    pub(in crate::reclaim) fn referrers(&self, batch: &Batch) -> LeafSet {
        let state = self.state();
        let mut all = LeafSet::default();
        for victim in &batch.victims {
            all.insert_all(victim.referrers(&state.reclaim));
        }
        all
    }

    /// Takes the next leaves out of `pending`, after it added those that were touched since. Empty only if
    /// every leaf that may refer to a victim was handled after its last change.
    pub(in crate::reclaim) fn next_referrers(
        &self,
        batch: &Batch,
        pending: &mut LeafSet,
    ) -> Vec<NodeId> {
        let mut state = self.state();
        let touched = state.index_touched();
        let reclaim = &state.reclaim;
        let leaves: Vec<_> = batch.victims.iter().map(|victim| victim.referrers(reclaim)).collect();
        for id in touched {
            if leaves.iter().any(|leaves| leaves.contains(id)) {
                pending.insert(id);
            }
        }
        pending.take_first(LEAVES_A_STEP)
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
