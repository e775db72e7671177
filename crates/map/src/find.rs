//! A slow search for references, for tests and checks only.

use std::collections::BTreeSet;

use mjolnir_units::Pba;

use crate::{Absent, Map, NodeId};

impl Map {
    /// A reachable leaf that refers to a block which `wanted` accepts, with that block; `None` if
    /// no leaf does. Walks every reachable node once.
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
                    // Testing both ends suffices: an extent reaches into at most two segments.
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

    /// Has the next checkpoint rewrite an unchanged page of the node table, which frees the page's
    /// present place.
    pub fn redirty_page(&mut self, page: u32) {
        assert!(page < self.pages(), "page {page} is past the end of the node table");
        self.table.pages_dirty.insert(page);
    }
}
