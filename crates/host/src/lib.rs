//! The real world: an executor on one thread, the clock, sockets, signals, recordings of clients.
//!
//! **Imports** `units`, `device`, `backends`, `engine`, `store`, and of `workload` the format of
//! recordings. **Leaves out** the protocol on the sockets (`nbd`) and the command line (`cli`).
//!
//! TLS for clients is the feature `tls`; without it, its types exist but have no values.
//!
//! Invariant: everything that runs on a [`HostRuntime`] runs on the thread that called [`run`],
//! except jobs given to [`Runtime::parallel`](mjolnir_device::Runtime::parallel).

#![allow(clippy::disallowed_methods)] // This crate is the door to the outside world; see clippy.toml.

mod activation;
mod error;
mod listener;
mod open_files;
mod readiness;
mod record;
mod runtime;
mod shutdown;
mod store;
mod stream;
mod tls;
mod unix_path;
mod workers;

pub use activation::inherited_listeners;
pub use error::{HostError, HostErrorKind};
pub use listener::{Listener, is_loopback};
/// How a file or device is opened: what [`open_store`] takes besides the engine's options.
pub use mjolnir_backends::{
    Direct, IoChoice, OpenOptions as DeviceOptions, Short, WarmLeft, WarmPlace, WarmReport,
    Warning, Warnings,
};
pub use open_files::raise_open_files_limit;
pub use readiness::{Readiness, tell_service_manager};
pub use record::{Recorded, Recorder, Recording, may_record};
pub use runtime::{HostRuntime, run};
pub use shutdown::Shutdown;
pub use store::{
    LocalStore, NewStore, Opened, Shape, Warm, create_store, default_segment_bytes, lengthen_store,
    open_store,
};
pub use stream::Stream;
pub use tls::{TLS_BUILT_IN, Tls, TlsKeys, TlsStream};
pub use unix_path::{SOCKET_PATH_BYTES_MAX, connect_unix};
pub use workers::Workers;
