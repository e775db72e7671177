//! Virtual time: one single-threaded executor whose clock jumps to the next timer, seeded chance, and
//! a trace of what happened.
//!
//! A [`Sim`] holds any number of worlds: each has tasks that end together, and processors of its own.
//! [`Options`] say what polls and jobs cost, in which [`Order`] ready tasks run, and whether all is
//! traced: the fault simulator draws the order and traces every poll, studies of hardware do neither and
//! are faster.
//!
//! **Imports** `units`, and of `device` the [`Runtime`](mjolnir_device::Runtime) that it implements.
//! **Leaves out** devices, engines and workloads: `sim` and `study` bring theirs.
//!
//! Invariant: nothing here iterates over a map with a random order, reads a clock or draws from
//! anything but the seed. The same seed and tasks give the same run.

mod chance;
mod executor;
mod options;
mod runtime;
mod tasks;
mod timers;
mod trace;

pub use chance::Chance;
pub use executor::{Sim, WorldId};
pub use options::{Jobs, Options, Order, Stuck};
pub use runtime::SimRuntime;
pub use trace::digest;
