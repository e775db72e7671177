//! The store's counters and records for reports. The plain data of the reports are in
//! `mjolnir_store::report`.

mod counters;
mod latency;
mod read_errors;
mod warm;

pub(crate) use counters::Counters;
pub(crate) use read_errors::ReadErrors;
pub use warm::WarmState;
