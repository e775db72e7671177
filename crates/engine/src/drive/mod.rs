//! The engine's mechanics: its handle and state, steps and their waits, verified reads, and the
//! tasks that serve the log and space.
//!
//! Parts (map, space, log, placement, pacing) never call up: they return the obstacle, or leave
//! requests in the log's outbox. A *step* ([`steps`]) changes several parts at once, without an
//! `.await`. Clients, checkpoints, recovery and reclaim are built on this folder, and do not know
//! each other.

mod again;
mod assemble;
mod buffers;
mod checkpoint;
mod engine;
mod flush;
mod line;
mod linger;
mod outage;
mod read;
mod release;
mod reset;
mod room;
mod state;
mod step;
mod steps;
mod submit;
mod trial;
mod waits;

pub use engine::Engine;
pub(crate) use line::Turn;
pub(crate) use outage::Lack;
pub(crate) use read::checksums::Sums;
pub(crate) use read::groups::{Hole, REACH, TRIES, Walk};
pub(crate) use read::pins::Pin;
pub(crate) use read::sources::ReadSource;
pub(crate) use room::Waiting;
pub(crate) use state::State;
pub(crate) use steps::apply::blocks_of;
pub(crate) use steps::write::{Version, shrunk};
