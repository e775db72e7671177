//! Nodes, edges and roots.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::displaced::Displaced;
use crate::words::{Base, Bases, Edit, Patched, Words};
use crate::{NodeId, form, leaf, word};

/// The most words in a leaf, unless a relocation fragmented it.
pub const LEAF_MAX: usize = 512;
/// The most edges in an inner node.
pub const INNER_MAX: usize = 128;
/// The highest level of a node.
pub const LEVEL_MAX: u8 = 15;
/// The most blocks in a tree (2⁶⁴ bytes of 4 KiB blocks).
pub const BLOCKS_MAX: u64 = 1 << 52;

/// A parent's record of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The child's length.
    pub blocks: u64,
    /// The child.
    pub child: NodeId,
    /// Whether another edge may lead to the child. Never cleared: a writer makes a copy with an
    /// owned edge instead.
    pub shared: bool,
}

const _: () = assert!(size_of::<Edge>() == 16);

/// The root of a tree.
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
    /// A leaf that may share words with others.
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

    /// A version with the same content for the same id, to be changed.
    pub(crate) fn to_change(&self) -> Node {
        match &self.body {
            Body::Leaf(words) => {
                let words = leaf::copy_to_change(words, self.blocks);
                Node { blocks: self.blocks, body: Body::Leaf(words) }
            }
            Body::Patched(..) | Body::Inner(..) => self.clone(),
        }
    }

    /// Moves a leaf's words into a base that other leaves can share, if it has at least `least`
    /// words.
    pub(crate) fn share(&mut self, least: usize, bases: &mut Bases) {
        if let Body::Leaf(words) = &mut self.body
            && (least..=LEAF_MAX).contains(&words.len())
        {
            let base = bases.of(std::mem::take(words), None);
            self.body = Body::Patched(Patched { base, edits: Box::default() });
        }
    }

    /// A version with the same content for another id. The children now have two parents.
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

    /// Whether the node is a leaf.
    pub fn is_leaf(&self) -> bool {
        !matches!(self.body, Body::Inner(..))
    }

    /// The words of a leaf, for loops that must be fast; empty for an inner node.
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
    /// leaf), the length in blocks, and the address (`None`: a hole). Empty for an inner node.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64, Option<Pba>)> {
        let mut start = 0;
        self.entries().iter().map(move |entry| {
            let at = start;
            start += word::blocks(entry);
            (at, word::blocks(entry), word::pba(entry))
        })
    }

    /// Bytes of memory that this version takes, unused capacity included, shared words excluded.
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

    /// The most bytes that a checkpoint writes for this version, shared words excluded.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        form::unwritten_bytes(self)
    }

    /// The number of words or edges.
    pub(crate) fn size(&self) -> usize {
        match &self.body {
            Body::Inner(_, edges) => edges.len(),
            leaf => leaf.words().len(),
        }
    }

    /// The words of a leaf, to be changed. The leaf shares no words from now on.
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

    /// Maps blocks `lo..hi` of a leaf to `pba` and on, or makes them a hole. The leaf keeps a
    /// shared base while it has at most `edits_max` edits. Returns the index of the first word that
    /// may have changed.
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

    /// Gives a leaf the base and edits that it has after its relocation.
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

    /// The base and edits of a leaf that may share words; `None` for other nodes.
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

    /// The index of the child that holds block `at`, and the child's first block. If `at` is the
    /// node's length, the last child's.
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

/// Limits of node sizes: [`LEAF_MAX`] and [`INNER_MAX`], or less for tall trees in tests.
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
    /// The fewest words that a leaf shares with others: fewer are copied.
    pub fn shared_min(&self) -> usize {
        (self.leaf_max / 8).max(2)
    }

    /// The most edits of a leaf that shares words. An edit is twice as long as a word, so in memory
    /// these take an eighth of a full leaf.
    pub fn edits_max(&self) -> usize {
        (self.leaf_max / 16).max(2)
    }

    /// The most words or edges in a node of a level.
    pub fn most(&self, level: u8) -> usize {
        if level == 0 { self.leaf_max } else { self.inner_max }
    }

    /// Whether a node should be merged with a neighbour when an operation passes by.
    pub fn is_thin(&self, node: &Node) -> bool {
        node.size() < (self.most(node.level()) / 4).max(2)
    }
}
