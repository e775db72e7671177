//! Latencies in little memory.

/// Parts into which each power of two is divided: percentiles are exact to a 32nd.
const PARTS: u64 = 32;

/// Counts, mean, maximum and percentiles of latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { buckets: vec![0; 64 * PARTS as usize], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    let part = (ns >> (power - 5)) - PARTS;
    ((power - 4) * PARTS + part) as usize
}

/// The highest latency that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    if power == 0 {
        return part;
    }
    let width = power - 1;
    ((PARTS + part) << width) + ((1 << width) - 1)
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in nanoseconds; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean, in nanoseconds, exactly; 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The latency that `share` (0 to 1) of all do not exceed, in nanoseconds, rounded up by at
    /// most a 32nd; 0 if there is none.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_numbers_in_order() {
        for ns in (0..5_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX - 1, u64::MAX]) {
            let high = upper(bucket(ns));
            assert!(high >= ns && high - ns <= ns / PARTS, "{ns} is in a bucket up to {high}");
            assert!(bucket(ns) >= bucket(ns.saturating_sub(1)));
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_list() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|ns| latencies.add(ns * 1_000));
        assert_eq!(latencies.mean_ns(), 500_500.0);
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)]
        {
            let got = latencies.percentile_ns(share);
            assert!(got >= exact && got <= exact + exact / 32, "{share}: {got}");
        }
        assert_eq!(Latencies::default().percentile_ns(0.5), 0);
    }
}
