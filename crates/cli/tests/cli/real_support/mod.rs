//! What the tests with real clients share: their programs, a store of their own with its server,
//! bytes to write, and a client whose writes overlap.

pub mod chance;
pub mod client;
#[cfg(feature = "tls")]
pub mod keys;
pub mod mounts;
#[cfg(feature = "tls")]
pub mod secured;
pub mod store;
pub mod tools;
