//! Policies: what to reclaim, where blocks land, and how fast reclaim may run.
//!
//! Each policy is a pure decision: it is handed a read-only view and returns a plain value, which
//! the engine carries out. So one policy serves the simulator and a real device alike, and cannot
//! tell which of them it is in.
//!
//! A new policy is one file beside its siblings and one line in their registry:
//!
//! * [`victim`]: which sealed segments are worth moving,
//! * [`placement`]: which stream a block is appended to,
//! * [`read_plan`]: which reads fetch a victim's live blocks,
//! * [`pacing`]: how device bandwidth is divided between clients and reclaim, when clients must
//!   wait, and how much of a processor scanning may take.
//!
//! A policy is asked for by a text: its name, and parameters where it has some ([`Parameter`]), as in
//! `dac:classes=4`. Experiments may write a table instead: `{ name = "dac", classes = 4 }`
//! ([`text_or_table`]).
//!
//! [`replay`] measures placement and victim policies together: nothing but a log of segments, and a
//! load. [`closed_form`] has what theory says of the plainest loads.
//!
//! **Imports** `units`. **Leaves out** all I/O, locks, clocks and randomness: ages are counted in
//! log sequence numbers, and durations are handed in. A policy may keep state between decisions
//! (hysteresis, say), but only what its views told it; those that draw lots carry a seeded source.

pub mod closed_form;
pub mod pacing;
mod parameters;
pub mod placement;
pub mod read_plan;
mod registry;
pub mod replay;
pub mod victim;
mod written;

pub use parameters::{Number, Parameter};
pub use registry::PolicyError;
pub use written::{listed, shortest, text_or_table, word};

/// The guide's programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/write-your-own-policy.md")]
mod guide {}
