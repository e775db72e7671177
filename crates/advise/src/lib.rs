//! Advice: which placement, which victim policy and how much spare space suit a trace.
//!
//! 1. [`Prepared`] closes a trace's addresses up to a drive of just its data.
//! 2. [`Ask::grid`] sends it through the fast replayer with every placement policy, several victim
//!    policies and spare sizes, and with those that know the future.
//! 3. [`Ask::trial`] repeats the best few and the default from other places of the trace: how sure
//!    is the choice?
//! 4. [`Ask::lab`] runs the best one and the default on the shipping engine, on simulated flash:
//!    does it hold there, and how long do requests take?
//! 5. [`Advice`] draws the conclusion.
//!
//! Each of 2 to 4 is an experiment as any other, with results and a report.
//!
//! **Imports** `experiment`, the kinds of `lab`, and of `engine` and `policy` the defaults and names.
//! **Leaves out** running the experiments, and words for a terminal (`cli`).

mod advice;
mod stages;

pub use advice::{Advice, AtSpare, Latency, Measure, Verdict};
pub use mjolnir_lab::{Limits, PrepareError, Prepared};
pub use stages::{Ask, Choice, STAGES, Shortlist};
