//! Keeps trees well filled: after a change, merges thin nodes on both sides of the seam with
//! neighbours that are in memory.

use mjolnir_units::TreeId;

use crate::table::Table;
use crate::{Map, NodeId};

/// Merges tried on each level of one seam.
const ROUNDS_MAX: usize = 6;

impl Map {
    /// Mends the seam before block `at`.
    pub(crate) fn mend(&mut self, tree: TreeId, at: u64) {
        let root = self.root(tree);
        if !root.edge.shared && root.level > 0 {
            self.table.mend_below(root.edge.child, at);
        }
        let mended = self.table.collapse(root);
        if mended != root {
            self.set_root(tree, mended);
        }
    }
}

impl Table {
    /// Mends the seam before block `at` below an owned inner node.
    fn mend_below(&mut self, id: NodeId, at: u64) {
        let Some(level) = self.resident(id).map(|node| node.level()) else { return };
        for _ in 0..ROUNDS_MAX {
            let [(left, _), (right, _)] = self.seam(id, at);
            if !self.mend_child(id, left) && (left == right || !self.mend_child(id, right)) {
                break;
            }
        }
        if level == 1 {
            return;
        }
        let [left, right] = self.seam(id, at);
        // The right side first: a change below it moves no index on the left.
        for (index, start) in if left == right { vec![left] } else { vec![right, left] } {
            let edge = self.node(id).edges()[index];
            if !edge.shared {
                self.mend_below(edge.child, at - start);
            }
        }
    }

    /// The children that hold the blocks before and after the seam, with their first blocks.
    fn seam(&self, id: NodeId, at: u64) -> [(usize, u64); 2] {
        let node = self.node(id);
        [node.child_at(at.saturating_sub(1)), node.child_at(at.min(node.blocks - 1))]
    }

    /// Merges a thin child with a neighbour, or divides their content evenly; true if anything
    /// changed.
    fn mend_child(&mut self, id: NodeId, index: usize) -> bool {
        let edges = self.node(id).edges();
        let Some(thin) =
            self.resident(edges[index].child).filter(|child| self.shape.is_thin(child))
        else {
            return false;
        };
        let candidate = |other: usize| {
            let edge = edges.get(other)?;
            let node = self.resident(edge.child)?;
            let total = thin.size() + node.size();
            let most = self.shape.most(node.level());
            let fits = total <= most;
            (node.size() <= most).then_some((!fits, edge.shared, total, other))
        };
        let before = index.checked_sub(1).and_then(candidate);
        let Some((apart, .., other)) = before.into_iter().chain(candidate(index + 1)).min() else {
            return false;
        };
        let first = index.min(other);
        let (left, right) = (edges[first], edges[first + 1]);
        let merged = if apart { self.balance(left, right) } else { self.merge(left, right) };
        self.edit(id, |node| {
            crate::dense::splice(node.edges_mut(), first, first + 2, &merged, usize::MAX);
        });
        true
    }
}
