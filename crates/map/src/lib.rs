//! The address map: a persistent B+tree of extents with relative keys (a rope). A node knows its
//! length, not its address, so that a snapshot, a clone and a move of any range, at any alignment,
//! share or carry whole subtrees.
//!
//! **Imports** `units`. **Leaves out** all I/O: an operation that needs a node which is not in
//! memory returns [`Absent`] and changes nothing. The caller reads the image at [`Map::address`],
//! hands it to [`Map::install`] and repeats the operation. The map also knows no names, no log and
//! no segments.
//!
//! # Shape
//!
//! * A *tree* ([`TreeId`](mjolnir_units::TreeId)) is a volume, a snapshot or a staged transaction.
//!   To the map each is a root edge and a level.
//! * A *leaf* (level 0) is a list of words, one `u64` an extent ([`word`]): mapped extents of 1 to
//!   65,536 blocks, and holes of any length. Lengths are in the words, addresses are sums. A leaf
//!   copied for a write shares most of its words with its original (`words.rs`). The sharing shows
//!   only in the memory and media that both take.
//! * An *inner node* (level 1 and up) is a list of [`Edge`]s. All leaves of a tree have one depth.
//! * Parents name children by [`NodeId`]. An edit, a relocation or a rewrite elsewhere on media
//!   replaces the node's version under the same id; its parents stay unchanged.
//! * A table slot holds an `Arc` of the present version. Another holder of the `Arc` (a walker on
//!   another thread, a checkpoint being written) keeps that version: an edit then copies the node
//!   first.
//!
//! # Sharing without reference counts
//!
//! Every edge, root edges included, is *owned* or *shared*. The flag is never cleared, and there
//! are no counts anywhere:
//!
//! * a snapshot sets `shared` on the two root edges;
//! * a clone sets it on the edges to the subtrees that it takes, in the source and in the copy;
//! * a writer changes a node in place if every edge from the root down to it is owned. Otherwise it
//!   copies the node: the copy has a new id and *all its edges are shared*; the original does not
//!   change.
//!
//! Reference counts would have to be durable. The first write after a snapshot would raise one
//! count for each child of every node that it copies: some hundreds of scattered counters for one
//! block, in memory and on media. With the flag, that write creates one path of nodes and touches
//! nothing else. Counts would free shared nodes promptly. The collector's mark frees them anyway,
//! since it visits every reachable node once, and provably unshared nodes are still freed at once.
//! A deletion records only that the root is gone: after a crash the mark finds the rest.
//!
//! So a node dies in one of two ways: an *owned* edge to it is dropped, or a mark does not visit
//! it. [`Map::free_some`] frees the subtree below a dropped owned edge, along owned edges, in
//! bounded steps. An unvisited node is out of use when the mark ends ([`Map::end_mark`]);
//! [`Map::sweep`] frees its memory in bounded steps.
//!
//! # Invariants
//!
//! 1. A node reached only through owned edges has exactly one edge to it.
//! 2. Every edge of a node in use names a node in use, one level below, of exactly [`Edge::blocks`]
//!    blocks.
//! 3. A node's length is the sum of its entries' lengths. No entry is empty. No two holes are
//!    adjacent. No two adjacent extents would fit in one word. (Only a tree of 0 blocks has an
//!    empty leaf.)
//! 4. An inner node has 1 to [`INNER_MAX`] edges. A leaf has at most [`LEAF_MAX`] words. A
//!    relocation may fragment a leaf into more, up to what [`IMAGE_BYTES_MAX`] holds; the next
//!    private change of such a leaf splits it.
//! 5. An operation that returns [`Absent`] has changed nothing.
//! 6. While a mark runs, no visited node has an edge to a node that is neither visited nor waiting
//!    to be (the strong tri-colour invariant of Dijkstra et al., 1978).
//! 7. A word of a base that all its leaves replace by edits is not live. An image and the image
//!    that it refers to lie in one append.
//! 8. The durable table is that of the last [`Map::freeze`], plus every address [`Map::placed`]
//!    since. An id freed later keeps its address there until the next freeze.
//!
//! [`Map::verify`] checks 1 to 4 over the resident nodes.

mod bits;
mod checkpoint;
mod chunks;
mod dense;
mod diff;
mod displaced;
mod extract;
mod find;
mod form;
mod id;
mod image;
mod leaf;
mod map;
mod mark;
mod mend;
mod node;
mod prefetch;
mod range;
mod read;
mod relocate;
mod relocations;
mod repatch;
mod rope;
mod superseded;
mod table;
mod twins;
mod usage;
mod verify;
pub mod word;
mod words;
mod write;

pub use bits::Bits;
pub use checkpoint::Frozen;
pub use chunks::Chunks;
pub use diff::{Diff, DiffRange};
pub use form::{Form, ONE_BASE_BYTES_MAX, unwritten_bytes_of, with_one_base};
pub use id::{Absent, NodeAddress, NodeId};
pub(crate) use image::LEAF_WORDS_HARD;
pub use image::{BaseBefore, DecodeError, IMAGE_BYTES_MAX, ROOT_BYTES, root_decode, root_encode};
pub use map::Map;
pub use mark::MarkStep;
pub use node::{BLOCKS_MAX, Edge, INNER_MAX, LEAF_MAX, LEVEL_MAX, Node, Root};
pub use prefetch::{PREFETCH_AHEAD, a_line, prefetch, prefetch_line, prefetch_slice};
pub use read::{Run, Way};
pub use relocate::{Repointed, Repointer};
pub use relocations::{Relocations, RelocationsBuilder};
pub use table::TABLE_PAGE;
pub use twins::{Twins, differing};
pub use usage::Usage;
pub use words::Words;
