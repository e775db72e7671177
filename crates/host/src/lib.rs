//! The real world: an executor on one thread, the clock, sockets, signals.
//!
//! **Imports** `units`, `device`, `backends`, `engine`, `store`. **Leaves out** what is said on the
//! sockets (`nbd`) and what is asked on the command line (`cli`).
//!
//! Invariant: everything that runs on a [`HostRuntime`] runs on the thread that called [`run`],
//! but for the jobs given to [`Runtime::parallel`](mjolnir_device::Runtime::parallel).

// This crate is the door to the outside world; see clippy.toml.
#![allow(clippy::disallowed_methods)]

mod activation;
mod error;
mod listener;
mod readiness;
mod runtime;
mod shutdown;
mod stream;

pub use activation::inherited_listeners;
pub use error::{HostError, HostErrorKind};
pub use listener::{Listener, is_loopback};
pub use readiness::{Readiness, tell_service_manager};
pub use runtime::{HostRuntime, run};
pub use shutdown::Shutdown;
pub use stream::Stream;
