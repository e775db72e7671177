//! Loading what a replay will need before it is asked for: a node at a time, each read would wait
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
    /// Brings the nodes into memory that lead to the given blocks, as far as they can be read, level by
    /// level. Only a hint: each is asked for once, and what is missing still (because it is damaged, or
    /// memory had no room for it) is found, or found to be damaged, by whoever needs it.
    pub(crate) async fn prefetch(&self, mut blocks: Vec<(TreeId, u64)>) {
        // In order, so that a way is looked at once for all blocks that share it.
        blocks.sort_unstable();
        let mut asked: BTreeSet<NodeId> = BTreeSet::new();
        loop {
            let absent = self.absent_on_the_way(&mut blocks, &asked);
            if absent.is_empty() {
                return;
            }
            asked.extend(&absent);
            // Not kept: there may be far more of them than memory has room for.
            self.load_nodes(absent).for_each(|_| ready(())).await;
        }
    }

    /// The topmost nodes on the way to some blocks, which are in order, that are not in memory and were not
    /// asked for. Only blocks below these are left.
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
        // The way of the block before, and whether it lacks a node.
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
