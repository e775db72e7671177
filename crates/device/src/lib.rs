//! The engine's environment: a [`Device`] to keep bytes on, and a [`Runtime`] for time, tasks and
//! processors.
//!
//! **Imports** `units`, `buffer`. **Leaves out** every operating system call: implementations live in
//! `backends` and `host` (the real world) and in `lab` (the virtual one), and all of them pass
//! the tests in [`contract`].

mod abilities;
mod any;
mod chance;
pub mod contract;
mod device;
mod error;
pub mod filter;
mod info;
mod memory;
mod runtime;
mod warm;
mod zones;

pub use abilities::Abilities;
pub use any::AnyDevice;
pub use device::Device;
pub use error::{DeviceError, ErrorKind};
pub use info::{DeviceInfo, Sealing};
pub use memory::{MemoryDevice, MemoryOptions, MemoryWarmLog};
pub use mjolnir_buffer::{AlignedBuf, Arena, Buffers, SharedPage, use_huge_pages};
pub use runtime::Runtime;
pub use warm::{Opening, WarmElsewhere, WarmEntry, WarmLog};
pub use zones::{ResetTicket, ZoneTable};
