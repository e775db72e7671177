//! Loads the nodes that replay will need, ahead of it: if loaded one by one, each read would wait
//! for the one before.

use std::collections::BTreeSet;
use std::future::ready;
use std::ops::Range;

use futures_util::StreamExt;
use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_units::{Lba, TreeId};

use crate::drive::Engine;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Loads the nodes that lead to the given blocks, as far as they can be read, level by level.
    /// Only a hint: each node is requested once. A node still absent afterwards (damaged, or
    /// evicted for lack of memory) is loaded, or reported as damaged, by the step that needs it.
    pub(crate) async fn prefetch(&self, mut blocks: Vec<(TreeId, u64)>) {
        // Sorted, so that a path shared by several blocks is visited once.
        blocks.sort_unstable();
        let mut asked: BTreeSet<NodeId> = BTreeSet::new();
        loop {
            let absent = self.absent_on_the_way(&mut blocks, &asked);
            if absent.is_empty() {
                return;
            }
            asked.extend(&absent);
            // Not pinned: there may be far more of them than memory has room for.
            self.load_nodes(absent).for_each(|_| ready(())).await;
        }
    }

    /// The topmost nodes on the paths to some sorted blocks that are not in memory and were not
    /// requested yet. Keeps only the blocks below these in the list.
    fn absent_on_the_way(
        &self,
        blocks: &mut Vec<(TreeId, u64)>,
        asked: &BTreeSet<NodeId>,
    ) -> BTreeSet<NodeId> {
        let state = self.state();
        let (map, mut absent) = (&state.map, BTreeSet::new());
        if map.usage().resident == map.usage().nodes {
            return absent;
        }
        // The path of the previous block, and whether a node of it is absent.
        let mut last: Option<(TreeId, Range<u64>, bool)> = None;
        blocks.retain(|(tree, lba)| {
            if let Some((of, shared, lacks)) = &last
                && (of, true) == (tree, shared.contains(lba))
            {
                return *lacks;
            }
            if map.blocks(*tree).is_none_or(|size| *lba >= size) {
                return false;
            }
            let way = map.way_to(*tree, Lba(*lba));
            let lacking = way.absent.filter(|id| !asked.contains(id));
            absent.extend(lacking);
            last = Some((*tree, way.blocks, lacking.is_some()));
            lacking.is_some()
        });
        absent
    }
}
