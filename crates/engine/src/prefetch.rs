//! Loading what a replay will need before it is asked for: a node at a time, each read would wait
//! for the one before.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use futures_util::stream;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_units::{Lba, TreeId};

use crate::engine::Engine;

/// Nodes that are read at once.
const READS: usize = 64;
/// The most levels that a tree can lack, one round each.
const ROUNDS: usize = mjolnir_map::LEVEL_MAX as usize + 1;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Brings the nodes into memory that lead to the given blocks, as far as they can be read. Only
    /// a hint: what is missing still is found, or found to be damaged, by whoever needs it.
    pub(crate) async fn prefetch(&self, blocks: &[(TreeId, u64)]) {
        for _ in 0..ROUNDS {
            let usage = self.state().map.usage();
            if usage.resident == usage.nodes {
                return;
            }
            let absent: BTreeSet<NodeId> = {
                let state = self.state();
                let mut runs = Vec::new();
                let reaches = |(tree, lba): &&(TreeId, u64)| {
                    state.map.blocks(*tree).is_some_and(|size| *lba < size)
                };
                let lookups = blocks.iter().filter(reaches).filter_map(|(tree, lba)| {
                    runs.clear();
                    state.map.lookup(*tree, Lba(*lba), 1, &mut runs).err()
                });
                lookups.map(|absent| absent.0).collect()
            };
            if absent.is_empty() {
                return;
            }
            let mut loads =
                stream::iter(absent).map(|id| self.load_node(id)).buffer_unordered(READS);
            while let Some(loaded) = loads.next().await {
                if loaded.is_err() {
                    return;
                }
            }
        }
    }
}
