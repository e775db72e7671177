//! The controller: from host requests to page operations, and back.

mod latency;
mod spec;
mod ssd;

pub use latency::Latencies;
pub use spec::ControllerSpec;
pub use ssd::{Completion, Request, RequestError, RequestKind, Ssd};
