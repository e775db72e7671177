//! Files, block devices and zoned block devices as [`Device`](mjolnir_device::Device)s: the only crate that makes system
//! calls for I/O on stores.
//!
//! **Imports** `units` and `device`. **Leaves out** the content of the zones, and every decision
//! about it.
//!
//! Invariants: `docs/internals/container.md` has every byte that `container.rs` reads and writes. A
//! request owns the memory that the kernel may touch until the kernel is done with it, even if the
//! future is dropped (`io/uring.rs`).

#![allow(clippy::disallowed_methods)] // The outside world is this crate's subject; see clippy.toml.

mod container;
mod discard;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod host_device;
mod io;
mod warm;
mod zoned;

pub use container::VERSION as CONTAINER_VERSION;
pub use file::{
    CreateOptions, Direct, FileDevice, IoChoice, OpenOptions, Short, Warning, Warnings,
};
pub use host_device::HostDevice;
pub use warm::{WarmFile, WarmLeft, WarmPlace, WarmReport};
pub use zoned::{ZonedCreateOptions, ZonedDevice};
