//! Studies on simulated flash, in virtual time, the kinds of experiments, and advice.
//!
//! [`study`] is what most experiments run; [`kinds`] are all that run in virtual time or in none;
//! [`advise`] is made of both.
//!
//! **Imports** `units`, `device`, `store`, `policy`, `engine`, `flash`, `workload`, `vtime`, `experiment`.
//! **Leaves out** real time and real threads.

pub mod advise;
mod closed_form;
mod disksim;
pub mod recordings;
mod replay;
pub mod study;
mod uniform_overwrites;

use mjolnir_experiment::{Kind, Kinds};

/// A new kind is one file and one line here.
const OF_THE_LAB: &[&dyn Kind] = &[
    &closed_form::ClosedForm,
    &uniform_overwrites::UniformOverwrites,
    &disksim::DiskSim,
    &replay::ReplayTrace,
    &study::Simulate,
    &study::ReclaimCost,
];

/// The sorts of run of the lab. A program adds those that may see more of the world than the lab does.
pub fn kinds() -> Kinds {
    Kinds::default().with(OF_THE_LAB)
}
