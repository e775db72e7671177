//! Client requests by the `Store` contract: reads, writes, zeroes, vectors.

mod admission;
mod outlive;
mod read;
mod record;
mod store;
mod vectors;
mod write;
mod zero;

pub(crate) use store::EXTENTS_AT_ONCE;
pub(crate) use vectors::place_staged;
