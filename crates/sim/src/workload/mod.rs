//! Seeded clients that ask a store for everything it offers, and compare what it answers.
//!
//! Clients take the driver's locks (see [`locks`]) before they act; operations that are to race
//! on the same blocks are one operation of their own ([`race`]).

mod admin;
mod client;
mod data;
mod ground;
mod locks;
mod race;
mod swarm;
mod transactions;

pub(crate) use client::client;
pub use ground::Tally;
pub(crate) use ground::{Ground, joined, read_everything};
pub use swarm::{KINDS, Kind, RunSize, Swarm, Trouble};
pub(crate) use transactions::Shared as Transactions;
