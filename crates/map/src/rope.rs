//! Cuts and joins ropes. A rope is a [`Root`] that no tree has at the moment: its topmost node and
//! level. Both operations touch the nodes along one seam only: they change owned nodes in place and
//! copy shared nodes. The caller has checked ([`Map::probe`]) that the inner nodes on both sides of
//! each seam are in memory.

use crate::dense::{even_pieces, splice, trim};
use crate::leaf;
use crate::node::Body;
use crate::table::Table;
use crate::{Edge, LEVEL_MAX, Map, Node, NodeId, Root};

/// Fill of the pieces, in eighths, when a node much too large is cut into many.
const PIECE_EIGHTHS: usize = 6;

impl Map {
    /// Cuts a rope before block `at`. A part without blocks is `None`.
    pub(crate) fn cut_rope(&mut self, rope: Option<Root>, at: u64) -> (Option<Root>, Option<Root>) {
        let Some(rope) = rope else { return (None, None) };
        if at == 0 {
            return (None, Some(rope));
        }
        if at == rope.edge.blocks {
            return (Some(rope), None);
        }
        let (left, right) = self.table.cut(rope.level, rope.edge, at);
        let [left, right] =
            [left, right].map(|edge| self.table.collapse(Root { edge, level: rope.level }));
        (Some(left), Some(right))
    }

    /// Joins two ropes. Drops a rope without blocks.
    pub(crate) fn join_ropes(&mut self, left: Option<Root>, right: Option<Root>) -> Option<Root> {
        let mut solid = |rope: Option<Root>| {
            let rope = rope?;
            if rope.edge.blocks == 0 {
                self.table.drop_edge(rope.edge);
                return None;
            }
            Some(rope)
        };
        let (left, right) = match (solid(left), solid(right)) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return left.or(right),
        };
        let table = &mut self.table;
        let (edges, level) = if left.level >= right.level {
            (table.append(left.level, left.edge, right), left.level)
        } else {
            (table.prepend(right.level, right.edge, left), right.level)
        };
        Some(table.crown(edges, level))
    }
}

impl Table {
    /// An owned edge to a node that has no other edge.
    pub fn edge_to(&self, id: NodeId) -> Edge {
        Edge { blocks: self.node(id).blocks, child: id, shared: false }
    }

    /// Cuts the node below `edge` (at `level`; all edges above are owned) before block `at`, which
    /// is neither its first nor past its last. Both parts are owned and of the same level.
    fn cut(&mut self, level: u8, edge: Edge, at: u64) -> (Edge, Edge) {
        let id = self.own(edge).child;
        let right = if level == 0 {
            Node::leaf(self.edit(id, |node| {
                let right = leaf::split_off(node.words_mut(), edge.blocks, at);
                node.blocks = at;
                right
            }))
        } else {
            let (index, start) = self.node(id).child_at(at);
            let parts = (start < at).then(|| {
                let child = self.node(id).edges()[index];
                self.cut(level - 1, child, at - start)
            });
            let right = self.edit(id, |node| {
                node.blocks = at;
                let edges = node.edges_mut();
                let mut right = edges[index..].to_vec();
                edges.truncate(index);
                if let Some((mine, other)) = parts {
                    edges.push(mine);
                    right[0] = other;
                }
                trim(edges, usize::MAX);
                right
            });
            Node::inner(level, right)
        };
        let right = self.alloc(right);
        (self.edge_to(id), self.edge_to(right))
    }

    /// Removes topmost nodes that have one child.
    pub fn collapse(&mut self, mut rope: Root) -> Root {
        while rope.level > 0
            && let Some(node) = self.resident(rope.edge.child)
            && let [only] = *node.edges()
        {
            if !rope.edge.shared {
                self.release(rope.edge.child);
            }
            let shared = rope.edge.shared || only.shared;
            rope = Root { edge: Edge { shared, ..only }, level: rope.level - 1 };
        }
        rope
    }

    /// Appends `right`, which is not taller, to the node below `edge` at `level`. The result has
    /// one or two nodes of that level.
    fn append(&mut self, level: u8, edge: Edge, right: Root) -> Vec<Edge> {
        if level == right.level {
            return self.fuse(level, edge, right.edge);
        }
        let id = self.own(edge).child;
        let (index, last) = (self.node(id).size() - 1, self.node(id).edges()[..].last().copied());
        let edges = self.append(level - 1, last.expect("an inner node has children"), right);
        self.replace_child(id, index, &edges);
        self.split_inner(id, Some(index))
    }

    /// As [`append`](Table::append), at the other end.
    fn prepend(&mut self, level: u8, edge: Edge, left: Root) -> Vec<Edge> {
        if level == left.level {
            return self.fuse(level, left.edge, edge);
        }
        let id = self.own(edge).child;
        let first = self.node(id).edges()[0];
        let edges = self.prepend(level - 1, first, left);
        self.replace_child(id, 0, &edges);
        self.split_inner(id, None)
    }

    /// Merges two siblings if they fit in one node. They may have no parent yet.
    fn fuse(&mut self, level: u8, left: Edge, right: Edge) -> Vec<Edge> {
        let most = self.shape.most(level);
        match (self.resident(left.child), self.resident(right.child)) {
            (Some(a), Some(b)) if a.size() + b.size() <= most => self.merge(left, right),
            _ => vec![left, right],
        }
    }

    /// Replaces one child of an owned node with `edges`.
    pub fn replace_child(&mut self, id: NodeId, index: usize, edges: &[Edge]) {
        self.edit(id, |node| {
            splice(node.edges_mut(), index, index + 1, edges, usize::MAX);
            node.blocks = node.edges().iter().map(|edge| edge.blocks).sum();
        });
    }

    /// Splits an owned inner node that has too many children. `last_change`: where it grew.
    pub fn split_inner(&mut self, id: NodeId, last_change: Option<usize>) -> Vec<Edge> {
        let size = self.node(id).size();
        if size <= self.shape.inner_max {
            return vec![self.edge_to(id)];
        }
        let sizes = piece_sizes(size, self.shape.inner_max, last_change);
        let level = self.node(id).level();
        let mut rest = self.node(id).edges().to_vec();
        let mut edges = Vec::with_capacity(sizes.len());
        for length in sizes[1..].iter().rev() {
            let piece = rest.split_off(rest.len() - length);
            let piece = self.alloc(Node::inner(level, piece));
            edges.push(self.edge_to(piece));
        }
        rest.shrink_to_fit();
        self.edit(id, |node| *node = Node::inner(level, rest));
        edges.push(self.edge_to(id));
        edges.reverse();
        edges
    }

    /// Splits an owned leaf that has too many words. `last_change`: where it grew.
    pub fn split_leaf(&mut self, id: NodeId, last_change: Option<usize>) -> Vec<Edge> {
        let size = self.node(id).size();
        if size <= self.shape.leaf_max {
            return vec![self.edge_to(id)];
        }
        let sizes = piece_sizes(size, self.shape.leaf_max, last_change);
        let mut edges = vec![self.edge_to(id)];
        let mut at = sizes[0];
        for length in &sizes[1..] {
            let words = self.edit(id, |node| {
                let words = &node.words_mut()[at..at + length];
                leaf::copy_to_change(words, crate::word::sum(words))
            });
            at += length;
            let piece = self.alloc(Node::leaf(words));
            edges.push(self.edge_to(piece));
        }
        self.edit(id, |node| {
            let words = node.words_mut();
            words.truncate(sizes[0]);
            let blocks = crate::word::sum(words);
            trim(words, blocks as usize);
            node.blocks = blocks;
        });
        edges[0] = self.edge_to(id);
        edges
    }

    /// Makes a rope of parentless nodes of one level.
    pub fn crown(&mut self, mut edges: Vec<Edge>, mut level: u8) -> Root {
        while edges.len() > 1 {
            level += 1;
            assert!(level <= LEVEL_MAX, "a tree grew taller than {LEVEL_MAX} levels");
            let sizes = match edges.len() {
                few if few <= self.shape.inner_max => vec![few],
                many => even_pieces(many, self.shape.inner_max * PIECE_EIGHTHS / 8).collect(),
            };
            let mut rest = &edges[..];
            let mut above = Vec::with_capacity(sizes.len());
            for size in sizes {
                let (piece, after) = rest.split_at(size);
                rest = after;
                let id = self.alloc(Node::inner(level, piece.to_vec()));
                above.push(self.edge_to(id));
            }
            edges = above;
        }
        Root { edge: edges[0], level }
    }

    /// A rope of the given words (in normal form, not empty).
    pub fn rope_of(&mut self, words: &[u64]) -> Root {
        let mut edges = Vec::new();
        let mut rest = words;
        let sizes = match words.len() {
            few if few <= self.shape.leaf_max => vec![few],
            many => even_pieces(many, self.shape.leaf_max * PIECE_EIGHTHS / 8).collect(),
        };
        for size in sizes {
            let (piece, after) = rest.split_at(size);
            rest = after;
            let id = self.alloc(Node::leaf(piece.to_vec()));
            edges.push(self.edge_to(id));
        }
        self.crown(edges, 0)
    }

    /// Merges two siblings in memory. Reuses owned nodes; leaves shared nodes unchanged.
    pub fn merge(&mut self, left: Edge, right: Edge) -> Vec<Edge> {
        let body = self.concat(left, right);
        self.again += u64::from(left.shared || right.shared);
        let keep = match (left.shared, right.shared) {
            (false, right_shared) => {
                if !right_shared {
                    self.release(right.child);
                }
                left.child
            }
            (true, false) => right.child,
            (true, true) => {
                let id = self.alloc(body);
                return vec![self.edge_to(id)];
            }
        };
        self.edit(keep, |node| *node = body);
        self.adopted(keep);
        vec![self.edge_to(keep)]
    }

    /// Divides the content of two siblings in memory evenly. Both are owned afterwards.
    pub fn balance(&mut self, left: Edge, right: Edge) -> Vec<Edge> {
        let mut first = self.concat(left, right);
        let (left, right) = (self.own(left), self.own(right));
        let second = first.split_half();
        for (id, node) in [(left.child, first), (right.child, second)] {
            self.edit(id, |old| *old = node);
            self.adopted(id);
        }
        vec![self.edge_to(left.child), self.edge_to(right.child)]
    }

    /// Notes that the node gained content from another node.
    fn adopted(&mut self, id: NodeId) {
        if self.node(id).is_leaf() {
            self.gained(id);
        }
    }

    /// One node with the content of two siblings.
    fn concat(&self, left: Edge, right: Edge) -> Node {
        let children = |edge: Edge| {
            let edges = self.node(edge.child).edges().iter();
            edges.map(move |e| Edge { shared: e.shared || edge.shared, ..*e })
        };
        let (a, b) = (self.node(left.child), self.node(right.child));
        match &a.body {
            Body::Inner(level, _) => {
                Node::inner(*level, children(left).chain(children(right)).collect())
            }
            _ => Node::leaf(leaf::concat(&a.entries().whole(), &b.entries().whole())),
        }
    }
}

impl Node {
    /// Cuts a node with at least two entries in the middle; returns the right half.
    fn split_half(&mut self) -> Node {
        let half = self.size() / 2;
        let right = match &mut self.body {
            Body::Inner(level, edges) => {
                let right = Node::inner(*level, edges.split_off(half));
                edges.shrink_to_fit();
                right
            }
            _ => {
                let words = self.words_mut();
                let right = Node::leaf(words.split_off(half));
                words.shrink_to_fit();
                right
            }
        };
        self.blocks -= right.blocks;
        right
    }
}

/// Sizes of the pieces of a node that grew past `most`. A node that grew at its end will likely
/// grow there again, so its first piece stays nearly full; else both get half.
fn piece_sizes(size: usize, most: usize, last_change: Option<usize>) -> Vec<usize> {
    let small = size <= most + 8;
    let first = most - most / 8;
    let at_end = last_change.is_some_and(|index| index + 8 >= size);
    if small && at_end && size - first <= most {
        return vec![first, size - first];
    }
    let target = if small { most } else { most * PIECE_EIGHTHS / 8 };
    even_pieces(size, target).collect()
}
