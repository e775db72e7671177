//! The Store contract: what volumes can do, as those see it who use them (NBD, the lab's drivers).
//!
//! **Imports** `units`, `buffer`. **Leaves out** how any of it is done: `engine` is one Store, an array of
//! engines another.

mod error;
mod range;
mod store;
mod types;

pub use error::{Error, ErrorKind};
pub use mjolnir_buffer::Payload;
pub use range::VolumeRange;
pub use store::Store;
pub use types::{Chunk, Chunks, Durability, Extent, Mapping, Op, TargetInfo, ZeroMode, check_name};
