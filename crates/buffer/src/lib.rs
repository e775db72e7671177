//! Memory for payloads: buffers that direct I/O reads into, and the bytes that a reader gets from
//! them.
//!
//! **Imports** `units`. **Leaves out** the source and the destination of the bytes.

mod aligned;
mod buffers;
mod payload;
mod region;
mod shared;

pub use aligned::AlignedBuf;
pub use buffers::Buffers;
pub use payload::Payload;
pub use shared::{Arena, SharedPage, use_huge_pages};
