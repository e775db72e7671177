//! The engine: a log-structured store of volumes with garbage collection.
//!
//! **Imports** `units`, `device` (the interface it uses), `store` (the interface it offers), `map`
//! and `policy`. **Leaves out** the operating system, clocks, threads and randomness: `Device` and
//! `Runtime` supply them, so the same code runs on real devices and in virtual time.
//!
//! # Invariants
//!
//! 1. *State is whole at every `.await`*, and values read before an `.await` are checked again
//!    after it. State lives in one `RefCell`; no borrow crosses an `.await`.
//! 2. *The log is the order.* Each record gets the next sequence number when it is applied to the
//!    map, in one step without an `.await` in between. Recovery replays records in that order and
//!    ends at the first gap. A flush covers every record numbered before it began, and completes
//!    only when all of them are durable.
//! 3. *A segment is opened only if the durable checkpoint lists it as free*, and in the order of
//!    that list. So recovery finds the segments opened since without scanning the device, and no
//!    segment that a durable checkpoint refers to is ever reset.
//! 4. *A relocated block's old copy stays* until a durable checkpoint holds its new address (the
//!    segment is *retiring*), and until every read that may use it has ended (*pins*).
//! 5. *A stale block never becomes live again*: new references arise only from existing ones.
//! 6. *Every block read from the device is verified* against a checksum bound to its address and
//!    its segment's incarnation before anyone sees it.
//! 7. *Reserve.* Clients cannot take the last segments: the reserve covers relocation and a
//!    checkpoint, so trim, deletion and reclaim work on a full store.

mod catalog;
mod checkpoint;
mod client;
mod drive;
mod fault;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod inspect;
mod log;
mod memory;
mod open;
mod options;
mod pacing;
mod placement;
mod prepared;
mod reclaim;
mod recovery;
mod report;
mod seams;
mod space;
mod transactions;
mod volumes;
mod yielding;

pub use drive::Engine;
#[doc(hidden)]
pub use format::bind;
pub use inspect::{SegmentContent, SegmentInfo};
pub use options::{FormatOptions, OpenOptions, ReclaimOptions};
pub use placement::STREAMS_MAX;
#[doc(hidden)]
pub use reclaim::MarkLoop;
pub use recovery::segments_told;
pub use report::WarmState;
pub use space::{RESERVE_SEGMENTS_MIN, SEGMENTS_MIN};
pub use volumes::SNAPSHOTS_AT_ONCE_MAX;
