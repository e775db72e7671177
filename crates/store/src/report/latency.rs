//! Summaries of operations' latencies.

use serde::{Deserialize, Serialize};

/// Latency of one kind of operation since opening, in nanoseconds; percentiles are rounded up by
/// at most a quarter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Operations.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// 999 of 1,000 took at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}
