//! Reclaim: mark → select → relocate → repoint → sweep, a file or a folder each. `cycle.rs` drives them, and hands
//! victims (`victim.rs`) on from one to the next, a batch of them (`batch.rs`) at a time.
//!
//! A *cycle* is one walk of the whole map. It does the work of two scans at once, for disjoint
//! sets of segments, as the paper's pipelined scanner does (Mjölnir, INFLOW'15, section 4.2.2):
//! it counts the live blocks of every sealed segment, and it finds the leaves that refer to the
//! *candidates*, which were selected after the cycle before, or before the walk where all segments
//! are to be moved anyway. Then the candidates are relocated, and the next ones selected.
//!
//! Invariants:
//!
//! * While candidates exist, every new leaf version, and every leaf that gains existing
//!   references, is checked, and joins the reverse index if it refers to one (`take_touched`).
//! * Candidates are given up only when, in one step without an `.await`, every leaf in their index
//!   has been repointed and no touched leaf is unchecked.
//! * What is given up is *retiring* until a checkpoint frozen afterwards is durable.

mod batch;
mod callers;
mod collect;
mod conclude;
mod cycle;
mod lead;
mod mark;
mod ordered;
mod referrers;
mod relocate;
mod repoint;
mod select;
mod stuck;
mod sweep;
mod task;
mod victim;
mod wear;

pub use mark::scan::MarkLoop;
