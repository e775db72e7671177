//! Counters of one connection, readable while it runs.

use std::cell::Cell;

/// Totals of a connection so far. Shared by the connection and its observers, on one thread.
#[derive(Debug, Default)]
pub struct Stats {
    /// Requests answered, refused ones included.
    pub requests: Cell<u64>,
    /// Payload bytes sent to the client, holes included.
    pub bytes_read: Cell<u64>,
    /// Payload bytes received from the client.
    pub bytes_written: Cell<u64>,
    /// Requests taken and not yet answered.
    pub in_flight: Cell<usize>,
    /// Whether the client is in the middle of sending a request.
    pub receiving: Cell<bool>,
}

pub(crate) fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}
