//! A histogram of latencies.

use std::time::Duration;

use mjolnir_store::report::LatencySummary;

/// Latencies, counted in buckets of a quarter power of two.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    pub count: u64,
    total_ns: u128,
    max_ns: u64,
}

const BUCKETS: usize = 64 * 4;

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Box::new([0; BUCKETS]), count: 0, total_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The upper end of the bucket that contains the quantile `part` (0 to 1).
    fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count,
            mean_ns: if self.count == 0 {
                0
            } else {
                (self.total_ns / u128::from(self.count)) as u64
            },
            p50_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max_ns,
        }
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(4);
    let power = 63 - ns.leading_zeros() as usize;
    power * 4 + (ns >> (power - 2)) as usize % 4
}

fn upper(bucket: usize) -> u64 {
    let (power, quarter) = (bucket / 4, bucket as u64 % 4);
    if power < 2 { 4 } else { (5 + quarter) << (power - 2).min(60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_rounded_up_by_at_most_a_quarter() {
        let mut histogram = Histogram::default();
        for ns in 1..=10_000u64 {
            histogram.add(Duration::from_nanos(ns * 100));
        }
        let summary = histogram.summary();
        for (found, exact) in [(summary.p50_ns, 500_000), (summary.p99_ns, 990_000)] {
            assert!(found >= exact && found <= exact + exact / 4, "{found} for {exact}");
        }
        assert_eq!((summary.max_ns, summary.count), (1_000_000, 10_000));
    }

    #[test]
    fn the_longest_latency_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::MAX);
        histogram.add(Duration::ZERO);
        assert_eq!(histogram.summary().max_ns, u64::MAX);
    }
}
