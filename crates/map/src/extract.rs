//! Extracts a range as a rope that shares the nodes of its source, and leaves the source in place.

use mjolnir_units::TreeId;

use crate::leaf;
use crate::table::Table;
use crate::{Edge, Map, Node, NodeId, Root};

impl Map {
    /// A rope with blocks `lo..hi` of a tree. Makes new nodes along both ends only.
    pub(crate) fn extract(&mut self, tree: TreeId, lo: u64, hi: u64) -> Root {
        let mut root = self.root(tree);
        let whole = lo == 0 && hi == root.edge.blocks;
        if whole {
            root.edge.shared = true;
            self.set_root(tree, root);
            return root;
        }
        // Goes down to the lowest node that has the whole range.
        let (mut at, mut lo, mut hi, mut owned) = (root, lo, hi, !root.edge.shared);
        while at.level > 0 {
            let node = self.table.node(at.edge.child);
            let (index, start) = node.child_at(lo);
            let edge = node.edges()[index];
            if hi > start + edge.blocks {
                break;
            }
            (lo, hi) = (lo - start, hi - start);
            if lo == 0 && hi == edge.blocks {
                if owned {
                    self.table.share_children(at.edge.child, index, index);
                }
                return Root { edge: Edge { shared: true, ..edge }, level: at.level - 1 };
            }
            owned &= !edge.shared;
            at = Root { edge, level: at.level - 1 };
        }
        Root { edge: self.table.extract(at.edge.child, owned, lo, hi), level: at.level }
    }
}

impl Table {
    /// A new node of the same level with blocks `lo..hi` of a node, a proper part of it. `owned`:
    /// whether every edge down to the node is.
    fn extract(&mut self, id: NodeId, owned: bool, lo: u64, hi: u64) -> Edge {
        let node = self.node(id);
        if node.is_leaf() {
            let part = Node::leaf(leaf::slice(&node.entries().whole(), node.blocks, lo, hi));
            let part = self.alloc(part);
            return self.edge_to(part);
        }
        let level = node.level();
        let (first, first_start) = node.child_at(lo);
        let (last, last_start) = node.child_at(hi - 1);
        let mut edges = node.edges()[first..=last].to_vec();
        edges.iter_mut().for_each(|edge| edge.shared = true);
        let original = node.edges()[first..=last].to_vec();
        let (mut whole_from, mut whole_to) = (first, last);
        let last_blocks = hi - last_start;
        let cut_last = last_blocks < original[last - first].blocks;
        if lo > first_start || (first == last && cut_last) {
            let edge = original[0];
            let end = edge.blocks.min(hi - first_start);
            edges[0] = self.extract(edge.child, owned && !edge.shared, lo - first_start, end);
            whole_from += 1;
        }
        if cut_last && first < last {
            let edge = original[last - first];
            edges[last - first] = self.extract(edge.child, owned && !edge.shared, 0, last_blocks);
            whole_to -= 1;
        }
        if owned {
            self.share_children(id, whole_from, whole_to);
        }
        let part = self.alloc(Node::inner(level, edges));
        self.edge_to(part)
    }

    /// Marks the edges `first..=last` of an owned node as shared.
    fn share_children(&mut self, id: NodeId, first: usize, last: usize) {
        let edges = self.node(id).edges();
        if (first..=last).any(|index| !edges[index].shared) {
            self.edit(id, |node| {
                (first..=last).for_each(|index| node.edges_mut()[index].shared = true);
            });
        }
    }
}
