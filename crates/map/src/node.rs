//! Nodes, edges and roots.

use mjolnir_units::Pba;

use crate::{NodeId, leaf, word};

/// Words that a leaf has at most, unless a relocation fragmented it.
pub const LEAF_MAX: usize = 512;
/// Edges that an inner node has at most.
pub const INNER_MAX: usize = 128;
/// The highest level that a node can have.
pub const LEVEL_MAX: u8 = 15;
/// The most blocks that a tree can have (2⁶⁴ bytes of 4 KiB blocks).
pub const BLOCKS_MAX: u64 = 1 << 52;

/// What a parent knows of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The child's length.
    pub blocks: u64,
    /// The child.
    pub child: NodeId,
    /// Whether another edge may lead to the child. Never cleared: only a copy gets rid of it.
    pub shared: bool,
}

const _: () = assert!(size_of::<Edge>() == 16);

/// Where a tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The edge to the topmost node.
    pub edge: Edge,
    /// The level of the topmost node.
    pub level: u8,
}

/// One version of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(crate) blocks: u64,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Leaf(Vec<u64>),
    Inner(u8, Vec<Edge>),
}

const _: () = assert!(size_of::<Node>() == 40);

impl Node {
    pub(crate) fn leaf(words: Vec<u64>) -> Node {
        Node { blocks: word::sum(&words), body: Body::Leaf(words) }
    }

    pub(crate) fn inner(level: u8, edges: Vec<Edge>) -> Node {
        debug_assert!(level > 0 && !edges.is_empty());
        Node { blocks: edges.iter().map(|e| e.blocks).sum(), body: Body::Inner(level, edges) }
    }

    /// A version of the same content for the same id, to be changed.
    pub(crate) fn to_change(&self) -> Node {
        match &self.body {
            Body::Leaf(words) => {
                let words = leaf::copy_to_change(words, self.blocks);
                Node { blocks: self.blocks, body: Body::Leaf(words) }
            }
            Body::Inner(..) => self.clone(),
        }
    }

    /// A version of the same content for another id. The children now have two parents.
    pub(crate) fn copy(&self) -> Node {
        let mut copy = self.clone();
        if let Body::Inner(_, edges) = &mut copy.body {
            edges.iter_mut().for_each(|edge| edge.shared = true);
        }
        copy
    }

    /// Length in blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// 0 for a leaf; one more than its children's for an inner node.
    pub fn level(&self) -> u8 {
        match self.body {
            Body::Leaf(_) => 0,
            Body::Inner(level, _) => level,
        }
    }

    /// Whether it is a leaf.
    pub fn is_leaf(&self) -> bool {
        matches!(self.body, Body::Leaf(_))
    }

    /// The words of a leaf (see [`word`]), for loops that must be fast; empty for an inner node.
    pub fn entries(&self) -> &[u64] {
        match &self.body {
            Body::Leaf(words) => words,
            Body::Inner(..) => &[],
        }
    }

    /// The edges of an inner node, in address order; empty for a leaf.
    pub fn edges(&self) -> &[Edge] {
        match &self.body {
            Body::Leaf(_) => &[],
            Body::Inner(_, edges) => edges,
        }
    }

    /// The extents of a leaf in address order: the first block (counted from the start of the
    /// leaf), blocks, and where they lie (none: a hole). Nothing for an inner node.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64, Option<Pba>)> {
        let mut start = 0;
        self.entries().iter().map(move |entry| {
            let at = start;
            start += word::blocks(*entry);
            (at, word::blocks(*entry), word::pba(*entry))
        })
    }

    /// Bytes of memory that this version takes, unused capacity included.
    pub fn bytes(&self) -> usize {
        const ARC_COUNTS: usize = 2 * size_of::<usize>();
        ARC_COUNTS
            + size_of::<Node>()
            + match &self.body {
                Body::Leaf(words) => words.capacity() * size_of::<u64>(),
                Body::Inner(_, edges) => edges.capacity() * size_of::<Edge>(),
            }
    }

    /// Words or edges.
    pub(crate) fn size(&self) -> usize {
        match &self.body {
            Body::Leaf(words) => words.len(),
            Body::Inner(_, edges) => edges.len(),
        }
    }

    pub(crate) fn words_mut(&mut self) -> &mut Vec<u64> {
        match &mut self.body {
            Body::Leaf(words) => words,
            Body::Inner(..) => unreachable!("an inner node where a leaf was found before"),
        }
    }

    pub(crate) fn edges_mut(&mut self) -> &mut Vec<Edge> {
        match &mut self.body {
            Body::Inner(_, edges) => edges,
            Body::Leaf(_) => unreachable!("a leaf where an inner node was found before"),
        }
    }

    /// The index of the child that holds block `at`, and the child's first block. With `at` the
    /// length of the node, that of the last child.
    #[inline]
    pub(crate) fn child_at(&self, at: u64) -> (usize, u64) {
        let edges = self.edges();
        let (mut index, mut start) = (0, 0);
        for chunk in edges.chunks_exact(8) {
            let length: u64 = chunk.iter().map(|e| e.blocks).sum();
            if start + length > at {
                break;
            }
            start += length;
            index += 8;
        }
        if index == edges.len() {
            index -= 1;
            start -= edges[index].blocks;
        }
        while index + 1 < edges.len() && start + edges[index].blocks <= at {
            start += edges[index].blocks;
            index += 1;
        }
        (index, start)
    }
}

/// How large nodes grow: [`LEAF_MAX`] and [`INNER_MAX`], or less to get tall trees in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub leaf_max: usize,
    pub inner_max: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { leaf_max: LEAF_MAX, inner_max: INNER_MAX }
    }
}

impl Shape {
    /// Words or edges that a node of a level has at most.
    pub fn most(&self, level: u8) -> usize {
        if level == 0 { self.leaf_max } else { self.inner_max }
    }

    /// Whether a node should be merged with a neighbour when an operation passes by.
    pub fn is_thin(&self, node: &Node) -> bool {
        node.size() < (self.most(node.level()) / 4).max(2)
    }
}
