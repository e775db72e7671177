//! Trees as wholes: creating, sharing, dropping, resizing.

use std::collections::BTreeMap;
use std::sync::Arc;

use mjolnir_units::{Lba, TreeId};

use crate::displaced::Displaced;
use crate::leaf::fill;
use crate::node::Shape;
use crate::table::Table;
use crate::{Absent, BLOCKS_MAX, Edge, INNER_MAX, LEAF_MAX, Node, NodeId, Root};

/// All trees of a store, and their nodes.
///
/// Operations work in blocks. The caller checks that a tree exists (or does not, before making it)
/// and that ranges lie within it; else the map panics.
#[derive(Default)]
pub struct Map {
    pub(crate) table: Table,
    pub(crate) roots: BTreeMap<TreeId, Root>,
    pub(crate) displaced: Displaced,
}

impl Map {
    /// A map without trees.
    pub fn new() -> Map {
        Map::default()
    }

    /// Limits leaves to `leaf_max` words (4 to [`LEAF_MAX`]) and inner nodes to
    /// `inner_max` edges (4 to [`INNER_MAX`]) from now on. For tests: small nodes
    /// make tall trees of little content.
    pub fn with_node_sizes(mut self, leaf_max: usize, inner_max: usize) -> Map {
        assert!((4..=LEAF_MAX).contains(&leaf_max) && (4..=INNER_MAX).contains(&inner_max));
        self.table.shape = Shape { leaf_max, inner_max };
        self
    }

    /// A new tree of `blocks` blocks (at most [`BLOCKS_MAX`]), all of them a hole.
    pub fn create(&mut self, tree: TreeId, blocks: u64) {
        assert!(!self.contains(tree), "tree {} exists", tree.0);
        let root = self.hole(blocks);
        self.set_root(tree, root);
    }

    /// Whether the tree exists.
    pub fn contains(&self, tree: TreeId) -> bool {
        self.roots.contains_key(&tree)
    }

    /// The tree's length in blocks; `None` if the tree does not exist.
    pub fn blocks(&self, tree: TreeId) -> Option<u64> {
        self.roots.get(&tree).map(|root| root.edge.blocks)
    }

    /// All trees with their lengths in blocks, by id.
    pub fn trees(&self) -> impl Iterator<Item = (TreeId, u64)> {
        self.roots.iter().map(|(tree, root)| (*tree, root.edge.blocks))
    }

    /// A tree's root; `None` if the tree does not exist.
    pub fn tree_root(&self, tree: TreeId) -> Option<Root> {
        self.roots.get(&tree).copied()
    }

    /// The present version of a node that is in use.
    pub fn node(&self, id: NodeId) -> Result<Arc<Node>, Absent> {
        self.table.get(id)?;
        Ok(self.table.slot(id).node.clone().expect("it was there above"))
    }

    /// Makes a new tree `to` with the present content of `from`. Touches no node.
    pub fn snapshot(&mut self, from: TreeId, to: TreeId) {
        assert!(!self.contains(to), "tree {} exists", to.0);
        let root = self.share_root(from);
        self.set_root(to, root);
    }

    /// Gives `tree` the present content of `with`, as a restore of a snapshot does. Touches no
    /// node.
    pub fn replace(&mut self, tree: TreeId, with: TreeId) {
        if tree == with {
            return;
        }
        let old = self.root(tree);
        let root = self.share_root(with);
        self.let_go(old.edge);
        self.set_root(tree, root);
    }

    /// Drops a tree. Touches no node: [`free_some`](Map::free_some) or the next mark frees its
    /// nodes.
    pub fn drop_tree(&mut self, tree: TreeId) {
        let root = self.root(tree);
        self.roots.remove(&tree);
        self.let_go(root.edge);
    }

    /// Changes a tree's length: growing appends a hole, shrinking cuts.
    pub fn resize(&mut self, tree: TreeId, blocks: u64) -> Result<(), Absent> {
        assert!(blocks <= BLOCKS_MAX, "{blocks} blocks are more than a tree can have");
        let old = self.root(tree).edge.blocks;
        let at = old.min(blocks);
        if old == blocks {
            return Ok(());
        }
        self.probe(tree, at)?;
        self.split_oversize(tree, at);
        let (keep, gone) = self.cut_rope(Some(self.root(tree)), at);
        if let Some(gone) = gone {
            self.let_go(gone.edge);
        }
        let more = (blocks > old).then(|| self.hole(blocks - old));
        let root = match self.join_ropes(keep, more) {
            Some(root) => root,
            None => self.hole(0),
        };
        self.set_root(tree, root);
        self.mend(tree, at);
        Ok(())
    }

    /// Frees at most `limit` nodes of dropped trees and ranges; true if more remain.
    pub fn free_some(&mut self, limit: usize) -> bool {
        self.table.free_some(limit)
    }

    /// Drops clean nodes from memory, least recently used first, until `bytes` bytes are free;
    /// returns the bytes freed. Nodes whose version is held elsewhere do not count: dropping them
    /// would free nothing.
    pub fn evict(&mut self, bytes: usize) -> usize {
        self.table.evict(bytes)
    }

    /// Drops an edge, and the subtree below it if no other edge leads there.
    pub(crate) fn let_go(&mut self, edge: Edge) {
        self.displaced.note_blindly();
        self.table.drop_edge(edge);
    }

    pub(crate) fn root(&self, tree: TreeId) -> Root {
        match self.roots.get(&tree) {
            Some(root) => *root,
            None => panic!("tree {} does not exist; the caller checks that", tree.0),
        }
    }

    pub(crate) fn set_root(&mut self, tree: TreeId, root: Root) {
        self.table.shade(root.edge.child);
        self.roots.insert(tree, root);
    }

    fn share_root(&mut self, tree: TreeId) -> Root {
        let mut root = self.root(tree);
        root.edge.shared = true;
        self.roots.insert(tree, root);
        self.table.again += 1;
        root
    }

    /// A rope of `blocks` blocks that is a hole.
    pub(crate) fn hole(&mut self, blocks: u64) -> Root {
        assert!(blocks <= BLOCKS_MAX, "{blocks} blocks are more than a tree can have");
        let child = self.table.alloc(Node::leaf(fill(None, blocks).collect()));
        Root { edge: Edge { blocks, child, shared: false }, level: 0 }
    }

    /// Checks a caller's range.
    pub(crate) fn check_range(&self, tree: TreeId, lba: Lba, blocks: u64) {
        let length = self.root(tree).edge.blocks;
        assert!(
            lba.0 <= length && blocks <= length - lba.0,
            "{blocks} blocks from {lba} reach past the end of tree {} ({length} blocks)",
            tree.0
        );
    }
}
