//! Counters of events since the store was opened.

use crate::report::latency::Histogram;

/// Counters since the store was opened.
#[derive(Clone, Default)]
pub(crate) struct Counters {
    pub client_read_bytes: u64,
    pub client_write_bytes: u64,
    pub client_write_blocks: u64,
    pub device_read_blocks: u64,
    pub device_write_blocks: u64,
    pub device_flushes: u64,
    pub zone_resets: u64,
    pub segments_released: u64,
    pub released_bytes: u64,
    pub checkpoints: u64,
    pub nodes_loaded: u64,
    pub room_waits: u64,
    pub room_refusals: u64,
    pub replayed_records: u64,
    pub dropped_records: u64,
    pub promises: u64,
    /// Appends, resets, seals and root writes that the device failed, and what it said last.
    pub write_errors: u64,
    pub last_write_error: Option<String>,
    /// Groups that were logged again for that.
    pub groups_logged_again: u64,
    /// Times that the device took nothing for a while.
    pub outages: u64,
    /// Trials of bad segments.
    pub trials: u64,
    pub outlive_waits: u64,
    pub read_latency: Histogram,
    pub write_latency: Histogram,
    pub flush_latency: Histogram,
    pub trim_latency: Histogram,
    pub atomic_latency: Histogram,
}

impl Counters {
    /// Completed client requests of every kind.
    pub fn client_requests(&self) -> u64 {
        let Counters {
            read_latency,
            write_latency,
            flush_latency,
            trim_latency,
            atomic_latency,
            ..
        } = self;
        [read_latency, write_latency, flush_latency, trim_latency, atomic_latency]
            .iter()
            .map(|latency| latency.count)
            .sum()
    }
}
