//! Stretches of a tree that refer to a range of the device.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::Error;
use mjolnir_units::{Lba, TreeId};

use crate::drive::Engine;

/// The next part of a tree, in a walk over all of it.
pub(crate) enum Stretch {
    /// What it refers to.
    Runs(Vec<Run>),
    /// So many blocks whose part of the map cannot be read, and why.
    Lost(u64, Error),
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// What follows block `lba` of a tree; `None` at its end, or if it is gone.
    pub(crate) async fn stretch(&self, tree: TreeId, lba: u64) -> Option<Stretch> {
        let runs = self
            .step(|state| match state.map.blocks(tree) {
                Some(blocks) if lba < blocks => Ok(state.map.runs(tree, Lba(lba), 1024)?),
                _ => Ok(Vec::new()),
            })
            .await;
        match runs {
            Ok(runs) if runs.is_empty() => None,
            Ok(runs) => Some(Stretch::Runs(runs)),
            Err(error) => {
                let state = self.state();
                let blocks = state.map.blocks(tree).filter(|blocks| lba < *blocks)?;
                // To the end of what the absent node covers.
                let way = state.map.way_to(tree, Lba(lba));
                let end = match way.absent {
                    Some(_) => way.blocks.end,
                    None => lba + 1, // It came meanwhile; its neighbour is asked next.
                };
                Some(Stretch::Lost(end.min(blocks) - lba, error))
            }
        }
    }
}
