//! Memory for payloads: what direct I/O reads into, and what a reader is given of it.
//!
//! **Imports** `units`. **Leaves out** how bytes come into it and where they go.

mod aligned;
mod buffers;
mod payload;
mod region;
mod shared;

pub use aligned::AlignedBuf;
pub use buffers::Buffers;
pub use payload::Payload;
pub use shared::{Arena, SharedPage, use_huge_pages};
