//! Looking for references, the slow way: for proofs, not for work.

use std::collections::BTreeSet;

use mjolnir_units::Pba;

use crate::{Absent, Map, NodeId};

impl Map {
    /// A leaf that some tree reaches and that refers to a block which `wanted` accepts, with that
    /// block; none if there is none. Walks every reachable node once.
    pub fn find_reference(
        &self,
        wanted: impl Fn(Pba) -> bool,
    ) -> Result<Option<(NodeId, Pba)>, Absent> {
        let mut seen: BTreeSet<NodeId> = BTreeSet::new();
        let mut rest: Vec<NodeId> = self.roots.values().map(|root| root.edge.child).collect();
        while let Some(id) = rest.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = self.table.get(id)?;
            if node.is_leaf() {
                for (_, blocks, pba) in node.extents() {
                    let Some(pba) = pba else { continue };
                    // Both ends: an extent never crosses into another segment in between.
                    let last = pba.plus(blocks - 1);
                    if let Some(hit) = [pba, last].into_iter().find(|at| wanted(*at)) {
                        return Ok(Some((id, hit)));
                    }
                }
            } else {
                rest.extend(node.edges().iter().map(|edge| edge.child));
            }
        }
        Ok(None)
    }

    /// Has a page of the node table written again at the next checkpoint though it did not change,
    /// so that its present place becomes free.
    pub fn redirty_page(&mut self, page: u32) {
        assert!(page < self.pages(), "page {page} is past the end of the node table");
        self.table.pages_dirty.insert(page);
    }
}
