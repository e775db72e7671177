//! What the tests with real clients share: their programs, a store of their own with its server,
//! bytes to write, and a client whose writes overlap.

#![allow(dead_code)] // Each test uses its own part.
#![allow(clippy::disallowed_methods)] // Tests run programs in the real world; see clippy.toml.

pub mod chance;
pub mod client;
pub mod keys;
pub mod mounts;
pub mod secured;
pub mod store;
pub mod tools;
