//! Lookups: the mapping of blocks, and whether the nodes that an operation needs are in memory.

use std::ops::Range;

use mjolnir_units::{Lba, Pba, TreeId};

use crate::{Absent, Map, NodeId, word};

/// A stretch of a tree with one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in blocks, of any size.
    pub blocks: u64,
    /// The address of the first block, the others following; `None`: a hole.
    pub pba: Option<Pba>,
}

/// The way down to a block, as far as it is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The topmost absent node; `None` if all nodes down to the leaf are in memory.
    pub absent: Option<NodeId>,
    /// The tree's blocks with the same way: those below the absent node, or in the leaf.
    pub blocks: Range<u64>,
}

/// A leaf of a tree.
pub(crate) struct Spot {
    pub leaf: NodeId,
    /// The leaf's blocks within the tree.
    pub start: u64,
    pub end: u64,
    /// Whether every edge down to the leaf is owned.
    pub owned: bool,
}

/// Collects runs, and joins contiguous ones.
struct Runs<'a> {
    out: &'a mut Vec<Run>,
    /// The end of the caller's own runs.
    base: usize,
    limit: usize,
}

impl Runs<'_> {
    /// Adds a run; false if there was no room.
    fn push(&mut self, blocks: u64, pba: Option<Pba>) -> bool {
        if let Some(last) = self.out[self.base..].last_mut() {
            let next = last.pba.map(|at| at.plus(last.blocks));
            if next == pba && last.pba.is_some() == pba.is_some() {
                last.blocks += blocks;
                return true;
            }
        }
        if self.out.len() - self.base == self.limit {
            return false;
        }
        self.out.push(Run { blocks, pba });
        true
    }
}

impl Map {
    /// Appends the mapping of `blocks` blocks from `lba` to `out`, as runs, contiguous ones joined.
    /// If a node is absent, `out` does not change.
    pub fn lookup(
        &self,
        tree: TreeId,
        lba: Lba,
        blocks: u64,
        out: &mut Vec<Run>,
    ) -> Result<(), Absent> {
        self.check_range(tree, lba, blocks);
        if blocks == 0 {
            return Ok(());
        }
        let base = out.len();
        let root = self.root(tree);
        let mut runs = Runs { out, base, limit: usize::MAX };
        let found = self.walk(root.edge.child, lba.0, lba.0 + blocks, &mut runs);
        if found.is_err() {
            out.truncate(base);
        }
        found.map(|_| ())
    }

    /// Up to `limit` (at least one) runs from `from` on. They may end early at an absent node;
    /// continue from their end. Empty at the end of the tree.
    pub fn runs(&self, tree: TreeId, from: Lba, limit: usize) -> Result<Vec<Run>, Absent> {
        let root = self.root(tree);
        let end = root.edge.blocks;
        let mut out = Vec::new();
        if from.0 >= end {
            return Ok(out);
        }
        let mut runs = Runs { out: &mut out, base: 0, limit: limit.max(1) };
        match self.walk(root.edge.child, from.0, end, &mut runs) {
            Err(absent) if out.is_empty() => Err(absent),
            _ => Ok(out),
        }
    }

    /// Whether all of `blocks` blocks (at least one) from `lba` are a hole.
    pub fn is_hole(&self, tree: TreeId, lba: Lba, blocks: u64) -> Result<bool, Absent> {
        self.check_range(tree, lba, blocks);
        let runs = self.runs_within(tree, lba, blocks, 1)?;
        Ok(runs.iter().all(|run| run.pba.is_none() && run.blocks == blocks))
    }

    /// The first `limit` runs of a range, at most.
    pub(crate) fn runs_within(
        &self,
        tree: TreeId,
        lba: Lba,
        blocks: u64,
        limit: usize,
    ) -> Result<Vec<Run>, Absent> {
        let mut out = Vec::new();
        let mut runs = Runs { out: &mut out, base: 0, limit };
        self.walk(self.root(tree).edge.child, lba.0, lba.0 + blocks, &mut runs)?;
        Ok(out)
    }

    /// Pushes the mappings of blocks `lo..hi` of a node; true if all had room.
    fn walk(&self, id: NodeId, lo: u64, hi: u64, runs: &mut Runs<'_>) -> Result<bool, Absent> {
        let node = self.table.get(id)?;
        if node.is_leaf() {
            let words = node.entries();
            let (index, mut start) = words.seek(node.blocks(), lo);
            for entry in words.iter_from(index) {
                if start >= hi {
                    break;
                }
                let end = start + word::blocks(entry);
                let (from, to) = (start.max(lo), end.min(hi));
                let pba = word::pba(entry).map(|at| at.plus(from - start));
                if !runs.push(to - from, pba) {
                    return Ok(false);
                }
                start = end;
            }
            return Ok(true);
        }
        let (mut index, mut start) = node.child_at(lo);
        while start < hi {
            let edge = node.edges()[index];
            let end = start + edge.blocks;
            if !self.walk(edge.child, lo.max(start) - start, hi.min(end) - start, runs)? {
                return Ok(false);
            }
            (index, start) = (index + 1, end);
        }
        Ok(true)
    }

    /// How far down the way to a block of a tree is in memory.
    pub fn way_to(&self, tree: TreeId, lba: Lba) -> Way {
        self.check_range(tree, lba, 1);
        let (mut edge, mut start) = (self.root(tree).edge, 0);
        let absent = loop {
            let Some(node) = self.table.resident(edge.child) else { break Some(edge.child) };
            if node.is_leaf() {
                break None;
            }
            let (index, offset) = node.child_at(lba.0 - start);
            edge = node.edges()[index];
            start += offset;
        };
        Way { absent, blocks: start..start + edge.blocks }
    }

    /// The leaf that holds block `at` of a tree; every node above it is in memory.
    pub(crate) fn locate(&self, tree: TreeId, at: u64) -> Result<Spot, Absent> {
        let root = self.root(tree);
        let (mut edge, mut start, mut owned) = (root.edge, 0, !root.edge.shared);
        for _ in 0..root.level {
            let node = self.table.get(edge.child)?;
            let (index, offset) = node.child_at(at - start);
            edge = node.edges()[index];
            start += offset;
            owned &= !edge.shared;
        }
        Ok(Spot { leaf: edge.child, start, end: start + edge.blocks, owned })
    }

    /// Checks that the nodes for a cut or join before block `at` are in memory: the inner nodes on
    /// both sides, and the leaf if the cut goes through it.
    pub(crate) fn probe(&self, tree: TreeId, at: u64) -> Result<(), Absent> {
        let length = self.root(tree).edge.blocks;
        if at > 0 {
            let spot = self.locate(tree, at - 1)?;
            if at < spot.end {
                self.table.get(spot.leaf)?;
            }
        }
        if at < length {
            self.locate(tree, at)?;
        }
        Ok(())
    }

    /// [`probe`](Map::probe) at both ends.
    pub(crate) fn probe_range(&self, tree: TreeId, lo: u64, blocks: u64) -> Result<(), Absent> {
        self.probe(tree, lo)?;
        self.probe(tree, lo + blocks)
    }
}
