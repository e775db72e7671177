//! The fault simulator: it runs a store against faults in virtual time, and compares all it says
//! with a model.
//!
//! One seed decides everything: the device, its delays and failures, when the power goes, how
//! tasks interleave, and what the clients ask. The same seed gives the same run, byte for byte,
//! which [`Report::trace`] proves. `cargo xtask sim --seed N`
//! repeats one, `cargo xtask sim --from A --seeds N` soaks, and [`Stage`] is for scripted scenarios.
//!
//! **Imports** `units`, `device`, `store`, `vtime`, and `engine` in [`subject`], [`stage`] and runs:
//! disk, model and workload know nothing of the engine.
//! **Leaves out** real time, real threads and real files, and the time that flash takes (`study`).
//!
//! What runs do not try: transactions that make or change volumes as a whole (the engine's own tests do), damage to
//! the medium before a power cut (a bit that flips in what was logged last cannot be told from a torn write), a flush
//! that fails and takes data with it, growing the device. The head of the model says what the checks cannot see.
//!
//! Invariants:
//!
//! * Nothing here iterates over a map with a random order, reads a clock or draws from anything
//!   but the seed.
//! * The model never asks the store what should be true; it knows only what was invoked,
//!   acknowledged and flushed.

mod disk;
mod model;
mod run;
pub mod stage;
pub mod subject;
mod workload;

pub use disk::{AfterCut, SimDisk};
pub use model::{Contents, Found, FoundTarget, Incarnation, Key, Model, Value, Violation};
pub use run::{Failure, Report, run_seed, run_seed_on, run_swarm};
pub use stage::{Setting, Stage};
pub use subject::{Subject, SubjectOptions};
pub use workload::{KINDS, Kind, RunSize, Swarm, Tally, Trouble};
