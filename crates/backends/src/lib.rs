//! Files and block devices as [`Device`](mjolnir_device::Device)s: the only room that talks to the
//! operating system below.
//!
//! **Imports** `units` and `device`. **Leaves out** what the zones hold, and every decision about
//! it.
//!
//! Invariants: `docs/internals/container.md` has every byte that `container.rs` reads and writes.
//! Memory that the kernel may touch is owned by the request until the kernel is done with it, also
//! if the future is dropped (`io/uring.rs`).

#![allow(clippy::disallowed_methods)] // The outside world is this crate's subject; see clippy.toml.

mod container;
mod discard;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod io;
mod warm;

pub use container::VERSION as CONTAINER_VERSION;
pub use file::{
    CreateOptions, Direct, FileDevice, IoChoice, OpenOptions, Short, Warning, Warnings,
};
pub use warm::{WarmFile, WarmLeft, WarmPlace, WarmReport};
