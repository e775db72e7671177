//! Nodes, edges and roots.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::displaced::Displaced;
use crate::words::{Base, Bases, Edit, Patched, Words};
use crate::{NodeId, form, leaf, word};

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

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Leaf(Vec<u64>),
    /// A leaf that may have words in common with others.
    Patched(Patched),
    Inner(u8, Vec<Edge>),
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Body::Inner(level, edges), Body::Inner(others, other)) => {
                level == others && edges == other
            }
            (Body::Inner(..), _) | (_, Body::Inner(..)) => false,
            (one, other) => one.words() == other.words(),
        }
    }
}

impl Eq for Body {}

impl Body {
    fn words(&self) -> Words<'_> {
        match self {
            Body::Leaf(words) => Words::from(&words[..]),
            Body::Patched(patched) => patched.view(),
            Body::Inner(..) => Words::from(&[][..]),
        }
    }
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
            Body::Patched(..) | Body::Inner(..) => self.clone(),
        }
    }

    /// Has a leaf hold its words so that others can, too, if there are `least`.
    pub(crate) fn share(&mut self, least: usize, bases: &mut Bases) {
        if let Body::Leaf(words) = &mut self.body
            && (least..=LEAF_MAX).contains(&words.len())
        {
            let base = bases.of(std::mem::take(words), None);
            self.body = Body::Patched(Patched { base, edits: Box::default() });
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
            Body::Leaf(_) | Body::Patched(_) => 0,
            Body::Inner(level, _) => level,
        }
    }

    /// Whether it is a leaf.
    pub fn is_leaf(&self) -> bool {
        !matches!(self.body, Body::Inner(..))
    }

    /// The words of a leaf, for loops that must be fast; none for an inner node.
    #[inline]
    pub fn entries(&self) -> Words<'_> {
        self.body.words()
    }

    /// The edges of an inner node, in address order; empty for a leaf.
    pub fn edges(&self) -> &[Edge] {
        match &self.body {
            Body::Leaf(_) | Body::Patched(_) => &[],
            Body::Inner(_, edges) => edges,
        }
    }

    /// The extents of a leaf in address order: the first block (counted from the start of the
    /// leaf), blocks, and where they lie (none: a hole). Nothing for an inner node.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64, Option<Pba>)> {
        let mut start = 0;
        self.entries().iter().map(move |entry| {
            let at = start;
            start += word::blocks(entry);
            (at, word::blocks(entry), word::pba(entry))
        })
    }

    /// Bytes of memory that this version takes, unused capacity included, but for words that it may
    /// have in common with others.
    pub fn bytes(&self) -> usize {
        const ARC_COUNTS: usize = 2 * size_of::<usize>();
        ARC_COUNTS
            + size_of::<Node>()
            + match &self.body {
                Body::Leaf(words) => words.capacity() * size_of::<u64>(),
                Body::Patched(patched) => patched.bytes(),
                Body::Inner(_, edges) => edges.capacity() * size_of::<Edge>(),
            }
    }

    /// Bytes that a checkpoint has to write for it at most, but for words that it has in common with others.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        form::unwritten_bytes(self)
    }

    /// Words or edges.
    pub(crate) fn size(&self) -> usize {
        match &self.body {
            Body::Inner(_, edges) => edges.len(),
            leaf => leaf.words().len(),
        }
    }

    /// The words of a leaf, which has none in common with others from now on.
    pub(crate) fn words_mut(&mut self) -> &mut Vec<u64> {
        let total = self.blocks;
        if let Body::Patched(_) = &self.body
            && let Body::Patched(patched) =
                std::mem::replace(&mut self.body, Body::Leaf(Vec::new()))
        {
            self.body = Body::Leaf(patched.into_words(total));
        }
        match &mut self.body {
            Body::Leaf(words) => words,
            _ => unreachable!("an inner node where a leaf was found before"),
        }
    }

    /// Maps blocks `lo..hi` of a leaf to `pba` and on, or makes them a hole; it may come to have so
    /// many edits. Returns the index of the first word that may have changed.
    pub(crate) fn replace(
        &mut self,
        lo: u64,
        hi: u64,
        pba: Option<Pba>,
        edits_max: usize,
        displaced: &mut Displaced,
    ) -> usize {
        let total = self.blocks;
        if let Body::Patched(patched) = &mut self.body
            && let Some(word) = leaf::one_word(pba, hi - lo)
            && let Some(at) = patched.replace(total, lo, word, edits_max, displaced)
        {
            return at;
        }
        leaf::replace(self.words_mut(), total, lo, hi, pba, displaced)
    }

    /// The words that a leaf has after its relocation, if it has them in common as before.
    pub(crate) fn repatch(&mut self, base: Arc<Base>, edits: &[Edit]) {
        match &mut self.body {
            Body::Patched(patched) => {
                patched.base = base;
                match patched.edits.len() == edits.len() {
                    true => patched.edits.copy_from_slice(edits),
                    false => patched.edits = edits.into(),
                }
            }
            _ => unreachable!("a leaf with words in common was found before"),
        }
    }

    /// The words of a leaf that may have some in common with others.
    pub(crate) fn patched(&self) -> Option<&Patched> {
        match &self.body {
            Body::Patched(patched) => Some(patched),
            Body::Leaf(_) | Body::Inner(..) => None,
        }
    }

    pub(crate) fn edges_mut(&mut self) -> &mut Vec<Edge> {
        match &mut self.body {
            Body::Inner(_, edges) => edges,
            _ => unreachable!("a leaf where an inner node was found before"),
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
    /// Words that a leaf has at least to hold them in common with others: fewer are copied.
    pub fn shared_min(&self) -> usize {
        (self.leaf_max / 8).max(2)
    }

    /// Edits that a leaf has at most, of those that hold words in common: in memory, twice as long as
    /// words, they take an eighth of what a full leaf does.
    pub fn edits_max(&self) -> usize {
        (self.leaf_max / 16).max(2)
    }

    /// Words or edges that a node of a level has at most.
    pub fn most(&self, level: u8) -> usize {
        if level == 0 { self.leaf_max } else { self.inner_max }
    }

    /// Whether a node should be merged with a neighbour when an operation passes by.
    pub fn is_thin(&self, node: &Node) -> bool {
        node.size() < (self.most(node.level()) / 4).max(2)
    }
}
