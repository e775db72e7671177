//! Workloads: clients' requests to a volume, made by rule or read from recordings.
//!
//! * [`trace`] reads block traces of many formats, writes most of them, and converts between them;
//!   a compact format of its own serves recordings (`docs/reference/trace-format.md`).
//!
//! * [`fit`] brings a trace to a device of another size and speed, by stated rules.
//! * [`synthetic`] makes requests by rule, in the terms of fio.
//!
//! **Imports** units. **Leaves out** files, clocks and executors: bytes come from a caller's `Read`
//! and go to its `Write`, and a request's time is a number. The lab issues requests and measures
//! their cost.
//!
//! Invariants:
//!
//! * The same input gives the same requests on every machine: no hash order, no floating-point
//!   function of the platform's, no ambient randomness.
//! * A reader's requests never go back in time, have a length above 0 (flushes excepted), and end
//!   at or below [`MAX_ADDRESS`].
//! * Memory is bounded, whatever the trace.
//! * Nothing is dropped or changed silently: a report counts every case.

pub mod fit;
mod mix;
mod request;
pub mod synthetic;
pub mod trace;
mod words;

pub use request::{MAX_ADDRESS, MAX_LENGTH, Op, Request, VolumeId};
