//! Walks the stretches of a tree that refer to a range of the device.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::Run;
use mjolnir_store::Error;
use mjolnir_units::{Lba, TreeId};

use crate::drive::Engine;

/// The next part of a tree, in a walk over all of it.
pub(crate) enum Stretch {
    /// Runs of addresses.
    Runs(Vec<Run>),
    /// This many blocks whose part of the map cannot be read, and the error.
    Lost(u64, Error),
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The stretch from block `lba` of a tree on; `None` at its end, or if the tree is gone.
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
                // Up to the end of the range of the absent node.
                let way = state.map.way_to(tree, Lba(lba));
                let end = match way.absent {
                    Some(_) => way.blocks.end,
                    None => lba + 1, // The node was loaded meanwhile; go on behind this block.
                };
                Some(Stretch::Lost(end.min(blocks) - lba, error))
            }
        }
    }
}
