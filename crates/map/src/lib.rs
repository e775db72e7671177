//! The address map: a persistent B+tree of extents with relative keys (a rope). A node knows its
//! length, not its address, so that a snapshot, a clone and a move of any range, at any alignment,
//! share or carry whole subtrees.
//!
//! **Imports** `units`. **Leaves out** all I/O: nodes that are not in memory make an operation stop
//! with [`Absent`] having changed nothing; the caller reads the image at [`Map::address`], hands it
//! to [`Map::install`] and repeats the operation. Also left out: names, the log, and what a segment
//! is.
//!
//! # Shape
//!
//! * A *tree* ([`TreeId`](mjolnir_units::TreeId)) is a volume, a snapshot or a staged transaction;
//!   to the map they are all the same: a root edge and a level.
//! * A *leaf* (level 0) is a list of words, one `u64` an extent ([`word`]): mapped extents of 1 to
//!   65,536 blocks, and holes of any length. Lengths are in the words, addresses are sums. A leaf that
//!   was copied for a write holds most of its words in common with the one that it was copied from
//!   (`words.rs`), which shows nowhere but in what both take of memory and media.
//! * An *inner node* (level 1 and up) is a list of [`Edge`]s. All leaves of a tree have one depth.
//! * Parents name children by [`NodeId`]. A node's version may be replaced under its id (an edit,
//!   a relocation, a rewrite elsewhere on media) and no parent needs to know.
//! * A table slot holds an `Arc` of the present version. Whoever holds another `Arc` of it (a walker
//!   on another thread, a checkpoint being written) keeps that version: an edit then copies first.
//!
//! # Sharing without reference counts
//!
//! Every edge, root edges included, is *owned* or *shared*. The flag is sticky, and there are no
//! counts anywhere:
//!
//! * a snapshot sets `shared` on the two root edges;
//! * a clone sets it on the edges to the subtrees it takes, in source and copy;
//! * a writer changes a node in place if every edge from the root down to it is owned. Otherwise it
//!   copies: the copy has a new id and *all its edges are shared*; the original stays as it was.
//!
//! Reference counts, which this replaces, would have to be durable, and the first write after a
//! snapshot would raise one for each child of every node it copies: some hundreds of scattered
//! counters for one block, in memory and on media. Here it creates one path of nodes and touches
//! nothing else. What counts would buy, prompt freeing of shared nodes, the collector's mark gives
//! anyway, since it visits every reachable node once; what is provably unshared is still freed at
//! once. And nothing about a deletion needs to be recorded but that the root is gone: after a crash
//! the mark finds the rest.
//!
//! So a node dies in one of two ways: an *owned* edge to it is dropped ([`Map::free_some`] works
//! off what hangs below, through owned edges, in bounded steps), or a mark does not visit it: it is
//! not in use any more when the mark ends ([`Map::end_mark`]), and its memory comes back in bounded
//! steps ([`Map::sweep`]).
//!
//! # Invariants
//!
//! 1. A node that is reached through owned edges only has exactly one edge to it.
//! 2. Every edge of a node that is in use names a node that is in use, one level below, of exactly
//!    [`Edge::blocks`] blocks.
//! 3. A node's length is the sum of its entries' lengths. No entry is empty; no two adjacent holes;
//!    no two adjacent extents that one word could hold. (Only a tree of 0 blocks has an empty leaf.)
//! 4. An inner node has 1 to [`INNER_MAX`] edges. A leaf has at most [`LEAF_MAX`] words, unless a
//!    relocation fragmented it, and never more than [`IMAGE_BYTES_MAX`] hold; the next private change of
//!    such a leaf splits it.
//! 5. An operation changes nothing if it returns [`Absent`].
//! 6. While a mark runs, no visited node has an edge to a node that is neither visited nor waiting
//!    to be (the strong tri-colour invariant of Dijkstra et al., 1978).
//! 7. What a base of leaves says where all of them have edits means nothing, and is not live. An image
//!    and the one that it refers to lie in one append.
//! 8. The durable table is that of the last [`Map::freeze`] plus what was [`Map::placed`] since: an
//!    id that was freed later keeps its address there until the next freeze.
//!
//! [`Map::verify`] checks 1 to 4 over what is resident.

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
