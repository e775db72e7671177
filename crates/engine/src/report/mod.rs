//! What the store counts and keeps to be told. The plain data that it tells are in `mjolnir_store::report`.

mod counters;
mod latency;
mod read_errors;
mod warm;

pub(crate) use counters::Counters;
pub(crate) use read_errors::ReadErrors;
pub use warm::WarmState;
