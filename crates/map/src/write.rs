//! Writes and trims. Most change one leaf in place.

use mjolnir_units::{Lba, Pba, TreeId};

use crate::leaf::{REPLACE_BLOCKS_MAX, fill};
use crate::{Absent, Edge, Map, NodeId};

/// The way from a root to an owned leaf: each inner node with the index of the child taken.
type Path = Vec<(NodeId, usize)>;

/// The origin of the blocks that a leaf gains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: they were just written.
    Fresh,
    /// Some leaf referred to them.
    Elsewhere,
}

impl Map {
    /// Maps `blocks` blocks from `lba` to those from `pba`.
    pub fn write(&mut self, tree: TreeId, lba: Lba, pba: Pba, blocks: u64) -> Result<(), Absent> {
        let fits = pba <= Pba::MAX && blocks <= Pba::MAX.0 - pba.0 + 1;
        assert!(fits, "{blocks} blocks from {pba} reach past {}", Pba::MAX);
        self.put(tree, lba, blocks, Some(pba))
    }

    /// Makes `blocks` blocks from `lba` a hole.
    pub fn trim(&mut self, tree: TreeId, lba: Lba, blocks: u64) -> Result<(), Absent> {
        self.put(tree, lba, blocks, None)
    }

    fn put(&mut self, tree: TreeId, lba: Lba, blocks: u64, pba: Option<Pba>) -> Result<(), Absent> {
        self.check_range(tree, lba, blocks);
        if blocks == 0 {
            return Ok(());
        }
        let (lo, hi) = (lba.0, lba.0 + blocks);
        let small = pba.is_none() || blocks <= REPLACE_BLOCKS_MAX;
        let spot = self.locate(tree, lo)?;
        if small && hi <= spot.end {
            self.table.get(spot.leaf)?;
            self.put_at(spot, tree, lo, hi, pba, Origin::Fresh);
            return Ok(());
        }
        // The range crosses one border between leaves, and both keep blocks: two small changes.
        if small && lo > spot.start {
            let next = self.locate(tree, spot.end)?;
            if hi < next.end {
                self.table.get(spot.leaf)?;
                self.table.get(next.leaf)?;
                self.put_in_leaf(tree, lo, hi, pba, Origin::Fresh);
                return Ok(());
            }
        }
        self.probe_range(tree, lo, blocks)?;
        self.split_oversize_ends(tree, lo, blocks);
        let words: Vec<u64> = fill(pba, blocks).collect();
        let rope = self.table.rope_of(&words);
        self.replace_range(tree, lo, hi, rope);
        Ok(())
    }

    /// Changes a range within one leaf or a few. These leaves, and the nodes above them, are in
    /// memory.
    pub(crate) fn put_in_leaf(
        &mut self,
        tree: TreeId,
        lo: u64,
        hi: u64,
        pba: Option<Pba>,
        origin: Origin,
    ) {
        let spot = self.located(tree, lo);
        self.put_at(spot, tree, lo, hi, pba, origin);
    }

    /// As `put_in_leaf`, where the caller has just located the leaf that holds block `lo`.
    fn put_at(
        &mut self,
        mut spot: crate::read::Spot,
        tree: TreeId,
        lo: u64,
        hi: u64,
        pba: Option<Pba>,
        origin: Origin,
    ) {
        if hi > spot.end {
            let border = spot.end;
            self.put_in_leaf(tree, lo, border, pba, origin);
            // The change may have moved the border of the leaves that follow.
            self.put_in_leaf(tree, border, hi, pba.map(|at| at.plus(border - lo)), origin);
            return;
        }
        if !spot.owned {
            self.own_path(tree, lo);
            spot = self.located(tree, lo);
        }
        let (start, edits_max) = (spot.start, self.table.shape.edits_max());
        let displaced = &mut self.displaced;
        let (before, after, changed) = self.table.edit(spot.leaf, |node| {
            let before = node.size();
            let changed = node.replace(lo - start, hi - start, pba, edits_max, displaced);
            (before, node.size(), changed)
        });
        if origin == Origin::Elsewhere && pba.is_some() {
            self.table.gained(spot.leaf);
        }
        if after > self.table.shape.leaf_max {
            self.split_at(tree, lo, changed);
        } else if after < before && self.table.shape.is_thin(self.table.node(spot.leaf)) {
            self.mend(tree, lo);
        }
    }

    fn located(&self, tree: TreeId, at: u64) -> crate::read::Spot {
        self.locate(tree, at).expect("the way was in memory when the operation began")
    }

    /// Makes the tree own every node on the way to block `at`. These nodes are in memory.
    fn own_path(&mut self, tree: TreeId, at: u64) -> Path {
        let mut root = self.root(tree);
        if root.edge.shared {
            root.edge = self.table.own(root.edge);
            self.set_root(tree, root);
        }
        let (mut id, mut at) = (root.edge.child, at);
        let mut path = Path::with_capacity(root.level.into());
        for _ in 0..root.level {
            let (index, start) = self.table.node(id).child_at(at);
            let edge = self.table.node(id).edges()[index];
            path.push((id, index));
            if edge.shared {
                let own = self.table.own(edge);
                self.table.edit(id, |node| node.edges_mut()[index] = own);
                id = own.child;
            } else {
                id = edge.child;
            }
            at -= start;
        }
        path
    }

    /// Splits the leaf that holds block `at`, and the nodes above it that then need a split.
    fn split_at(&mut self, tree: TreeId, at: u64, changed: usize) {
        let path = self.own_path(tree, at);
        let leaf = self.located(tree, at).leaf;
        let mut edges: Vec<Edge> = self.table.split_leaf(leaf, Some(changed));
        for (id, index) in path.iter().rev() {
            self.table.replace_child(*id, *index, &edges);
            edges = self.table.split_inner(*id, Some(*index + edges.len() - 1));
            if edges.len() == 1 {
                return;
            }
        }
        let level = path.len() as u8;
        let root = self.table.crown(edges, level);
        self.set_root(tree, root);
    }

    /// Splits the leaf that a cut before block `at` would divide, if a relocation left it with too
    /// many words.
    pub(crate) fn split_oversize(&mut self, tree: TreeId, at: u64) {
        if at < self.root(tree).edge.blocks {
            let spot = self.located(tree, at);
            if let Some(node) = self.table.resident(spot.leaf)
                && node.size() > self.table.shape.leaf_max
                && spot.start < at
            {
                self.split_at(tree, at, 0);
            }
        }
    }

    /// [`split_oversize`](Map::split_oversize) at both ends of a range.
    pub(crate) fn split_oversize_ends(&mut self, tree: TreeId, lo: u64, blocks: u64) {
        self.split_oversize(tree, lo);
        self.split_oversize(tree, lo + blocks);
    }
}
