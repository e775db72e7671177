//! Loading what a replay will need before it is asked for: a node at a time, each read would wait
//! for the one before.

use std::collections::BTreeSet;
use std::future::ready;

use futures_util::TryStreamExt;
use mjolnir_device::{Device, Runtime};
use mjolnir_units::{Lba, TreeId};

use crate::engine::Engine;

/// The most levels that a tree can lack, one round each.
const ROUNDS: usize = mjolnir_map::LEVEL_MAX as usize + 1;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Brings the nodes into memory that lead to the given blocks, as far as they can be read. Only
    /// a hint: what is missing still is found, or found to be damaged, by whoever needs it.
    pub(crate) async fn prefetch(&self, mut blocks: Vec<(TreeId, u64)>) {
        // In order, so that a leaf is looked for once for all the blocks that it holds.
        blocks.sort_unstable();
        blocks.dedup();
        for _ in 0..ROUNDS {
            let usage = self.state().map.usage();
            if usage.resident == usage.nodes {
                return;
            }
            let mut absent = BTreeSet::new();
            {
                let state = self.state();
                let mut reached = None;
                blocks.retain(|(tree, lba)| {
                    let is_reached = reached.is_some_and(|(of, end)| of == *tree && *lba < end);
                    if is_reached || state.map.blocks(*tree).is_none_or(|size| *lba >= size) {
                        return false;
                    }
                    let end = state.map.leaf_end(*tree, Lba(*lba));
                    reached = end.as_ref().ok().map(|end| (*tree, *end));
                    absent.extend(end.as_ref().err().map(|missing| missing.0));
                    end.is_err()
                });
            }
            if absent.is_empty() {
                return;
            }
            // Not kept: there may be far more of them than memory has room for.
            let loads = self.load_nodes(absent);
            if loads.try_for_each(|_| ready(Ok(()))).await.is_err() {
                return;
            }
        }
    }
}
