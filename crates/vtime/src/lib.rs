//! Virtual time: a single-threaded executor whose clock jumps to the next timer, seeded chance, and
//! a trace of what happened.
//!
//! **Imports** `units`, and of `device` the [`Runtime`](mjolnir_device::Runtime) that it implements.
//! **Leaves out** devices, engines and workloads: `sim` and `study` bring theirs.
//!
//! Invariant: nothing here iterates over a map with a random order, reads a clock or draws from
//! anything but the seed. The same seed and tasks give the same run.

mod chance;
mod executor;
mod trace;

pub use chance::Chance;
pub use executor::{Options, Sim, SimRuntime, Stuck, WorldId};
pub use trace::digest;
