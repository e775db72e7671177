//! Addresses, sizes, ids and instants: the types that every other crate uses.
//!
//! **Imports** nothing. **Leaves out** all I/O, all policy, and every clock: an [`Instant`] is only
//! a number of nanoseconds that the runtime provided.

mod address;
mod size;
mod time;

pub use address::{Lba, Pba, TreeId, ZoneId};
pub use size::{ByteSize, ParseSizeError};
pub use time::{Instant, TimeSpan};

/// Bytes in a block, the smallest unit a volume addresses.
pub const BLOCK_SIZE: u64 = 4096;
/// [`BLOCK_SIZE`] as a `usize`, for buffers.
pub const BLOCK_BYTES: usize = BLOCK_SIZE as usize;
