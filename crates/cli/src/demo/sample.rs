//! What happened in the store between two looks at it: the numbers of the six panels.

use std::time::Duration;

use mjolnir_store::report::Stats;
use mjolnir_units::BLOCK_SIZE;

/// Rates between two looks, and levels at the second one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, since the load began.
    pub at: Duration,
    /// Bytes a second that clients wrote.
    pub client_write: f64,
    /// Bytes a second that clients read.
    pub client_read: f64,
    /// Bytes a second written to the device.
    pub device_write: f64,
    /// Bytes a second read from the device.
    pub device_read: f64,
    /// Part of the segments that is in use, 0 to 1.
    pub utilization: f64,
    /// Reclaim's share of bandwidth, 0 to 1.
    pub reclaim_share: f64,
    /// Blocks a second that reclaim moved.
    pub moved: f64,
    /// Segments a second that were allocated.
    pub allocated: f64,
    /// Segments a second that were reclaimed.
    pub reclaimed: f64,
}

impl Sample {
    /// Compares two looks at the store.
    pub fn between(earlier: &Stats, later: &Stats, at: Duration) -> Self {
        let seconds = (later.uptime_s - earlier.uptime_s).max(1e-3);
        let rate =
            |count: fn(&Stats) -> u64| count(later).saturating_sub(count(earlier)) as f64 / seconds;
        Sample {
            at,
            client_write: rate(|stats| stats.client_write_bytes),
            client_read: rate(|stats| stats.client_read_bytes),
            device_write: rate(|stats| stats.device_write_bytes),
            device_read: rate(|stats| stats.device_read_bytes),
            utilization: later.space.utilization,
            reclaim_share: later.reclaim_share,
            moved: rate(|stats| stats.moved_bytes) / BLOCK_SIZE as f64,
            allocated: rate(|stats| stats.segments_allocated),
            reclaimed: rate(|stats| stats.segments_reclaimed),
        }
    }
}

/// Bytes as MiB, for people: with a decimal only where it says something.
pub fn mib(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib < 10.0 { format!("{mib:.1}") } else { format!("{mib:.0}") }
}

/// A count with its digits in groups of three.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let earlier = Stats { uptime_s: 1.0, moved_bytes: 4096, ..Stats::default() };
        let later = Stats {
            uptime_s: 3.0,
            moved_bytes: 4096 * 21,
            client_write_bytes: 1000,
            reclaim_share: 0.25,
            ..Stats::default()
        };
        let sample = Sample::between(&earlier, &later, Duration::from_secs(2));
        assert_eq!((sample.moved, sample.client_write), (10.0, 500.0));
        assert_eq!(sample.reclaim_share, 0.25);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([grouped(0), grouped(999), grouped(1234567)], ["0", "999", "1,234,567"]);
        assert_eq!([mib(1.5 * 1048576.0), mib(99.6 * 1048576.0)], ["1.5", "100"]);
    }
}
