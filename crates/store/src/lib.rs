//! The Store contract, in layers: first the operations of users on volumes (NBD, the lab's
//! drivers), then those of operators and coordinators.
//!
//! * [`Store`]: the bytes of volumes and snapshots. NBD uses this layer only.
//! * [`Volumes`]: volumes and snapshots as a whole.
//! * [`Maintenance`]: check, scrub, statistics, reclaim, checkpoint, growing.
//! * [`Member`]: transactions over several stores.
//! * [`Collects`], apart from these: the pressure of reclaim, and orders to it.
//!
//! **Imports** `units`, `buffer`. **Leaves out** the implementations: `engine` is one Store, an
//! array of engines another.

mod collects;
mod error;
mod maintenance;
mod member;
mod range;
pub mod report;
mod store;
mod types;
mod volumes;

pub use collects::{CollectOrder, Collects, Pressure};
pub use error::{Error, ErrorKind};
pub use maintenance::Maintenance;
pub use member::{
    COMMITTED_MAX, Change, Member, PREPARED_MAX, TransactionId, TransactionInfo, TransactionState,
};
pub use mjolnir_buffer::Payload;
pub use range::VolumeRange;
pub use store::Store;
pub use types::{Chunk, Chunks, Durability, Extent, Mapping, Op, TargetInfo, ZeroMode, check_name};
pub use volumes::{DiffExtent, DiffPage, SECTOR_BYTES, Volumes};
