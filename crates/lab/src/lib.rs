//! The kinds of experiments that run in virtual time or in none.
//!
//! [`kinds`] lists them: those of `study`, and those here.
//!
//! **Imports** `units`, `policy`, `flash`, `workload`, `vtime`, `experiment`, `study`.
//! **Leaves out** real time and real threads.

mod closed_form;
mod disksim;
mod prepare;
mod replay;
mod uniform_overwrites;

use mjolnir_experiment::{Kind, Kinds};

pub use prepare::{Limits, PrepareError, Prepared};
pub use replay::FUTURES;

/// A new kind is one file and one line here.
const OF_THE_LAB: &[&dyn Kind] = &[
    &closed_form::ClosedForm,
    &uniform_overwrites::UniformOverwrites,
    &disksim::DiskSim,
    &replay::ReplayTrace,
    &mjolnir_study::Simulate,
    &mjolnir_study::ReclaimCost,
];

/// The sorts of run of the lab. A program adds those that may see more of the world than the lab does.
pub fn kinds() -> Kinds {
    Kinds::default().with(OF_THE_LAB)
}
