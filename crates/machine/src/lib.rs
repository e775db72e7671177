//! Experiments on this machine: the engine that ships, on a real file or in memory, by the real
//! clock. The lab runs the same experiments in virtual time; these are kinds beside its own, in
//! the same words.
//!
//! **Imports** the lab's experiments and studies, and `host`, which holds the real world.
//! **Leaves out** what is measured against peers or targets (`bench`).
//!
//! Invariant: a figure from here is of the machine and the moment; each result says so, and none
//! is called the same or different by one run alone.

#![allow(clippy::disallowed_methods)] // It measures the real world; see clippy.toml.

mod by_clock;
mod load;
mod memory;
mod place;
mod reclaim;
mod scan;
mod threads;

pub use memory::{Keep, Memory, RamDevice, ThinDevice, is_zero};
pub use threads::Threads;

use mjolnir_experiment::{Kind, Kinds};

use crate::by_clock::ByClock;

/// The kinds of this crate.
static OF_THE_MACHINE: &[&dyn Kind] = &[
    &ByClock::<load::Load>::new(),
    &ByClock::<reclaim::ReclaimCost>::new(),
    &ByClock::<scan::Scan>::new(),
];

/// The sorts of run that experiments may ask for on a machine: the lab's, and those of this crate.
pub fn kinds() -> Kinds {
    mjolnir_lab::kinds().with(OF_THE_MACHINE)
}

/// A run that was told to stop, in words.
fn stopped() -> String {
    "told to stop".to_owned()
}
