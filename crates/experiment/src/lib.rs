//! Experiments: TOML files that name what to run, over which values, and what figures to draw.
//!
//! [`Plan::new`] reads a file and lays it out as [points](Point): every combination of the swept
//! values, each to be run with every seed. [`Plan::run`] runs them on threads, keeps each result at
//! once as a file of its own ([`ledger`]), so that an interrupted sweep goes on where it stood, and
//! gives [`Results`], which hold the experiment, the seeds and the version that they are of.
//! [`report`] makes a page of them, [`compare`] compares two.
//!
//! What is run is the affair of a [`Kind`]: a pure function of configuration and seed. So the
//! results of an experiment are the same, byte for byte, whenever and with however many jobs it is
//! run. Only kinds that measure the real world are no such function:
//! they say so ([`Kind::by_clock`]), results are marked, and nothing runs beside them. This crate has
//! no kinds of its own: a program hands in the [`Kinds`] that it has.
//!
//! **Imports** `units`, and `policy` for the names of policies.
//! **Leaves out** what is run, and time: who shows progress has a clock. It uses threads and files,
//! as the door between runs, which know neither, and a user's folder.

pub mod compare;
mod file;
mod keys;
mod kinds;
pub mod ledger;
mod mistake;
mod outcome;
pub mod report;
mod results;
mod runner;
mod shipped;
mod statistics;
mod sweep;

use serde::{Deserialize, Serialize};

pub use file::{Case, Experiment, Figure, Paper, Quick, Style, Where};
pub use kinds::Kinds;
pub use mistake::{Mistake, nearest, nearest_hint, parse_configuration};
pub use outcome::{Kind, Outcome, Series};
pub use results::{Failed, PointResult, Results, SeedResult};
pub use runner::{Event, RunError, Setting};
pub use shipped::{SHIPPED, find};
pub use statistics::Estimate;
pub use sweep::{Changes, Coordinate, Plan, Point};

/// The program that results are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// What tells builds of a version apart.
    pub build: String,
}
