//! What several rounds gave.

/// A figure of each round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// None yet.
    pub fn new() -> Self {
        Samples::default()
    }

    /// Of one round.
    pub fn one(value: f64) -> Self {
        Samples(vec![value])
    }

    /// Adds a round's figure.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// How many rounds.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The middle one, or the mean of the two in the middle; NaN if there are none.
    pub fn median(&self) -> f64 {
        let values = self.sorted();
        let middle = values.len() / 2;
        match values.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        }
    }

    /// The lowest; NaN if there are none.
    pub fn lowest(&self) -> f64 {
        self.sorted().first().copied().unwrap_or(f64::NAN)
    }

    /// The highest; NaN if there are none.
    pub fn highest(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }
}

/// How long each of many operations took, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    ns: Vec<u64>,
}

impl Latencies {
    /// Adds an operation.
    pub fn push(&mut self, ns: u64) {
        self.ns.push(ns);
    }

    /// The least that this part of all took at most, in microseconds; 0 if there are none.
    pub fn quantile_us(&self, part: f64) -> f64 {
        let mut sorted = self.ns.clone();
        let at = ((sorted.len() as f64 * part).ceil() as usize).max(1) - 1;
        if at >= sorted.len() {
            return 0.0;
        }
        *sorted.select_nth_unstable(at).1 as f64 / 1e3
    }

    /// `p50/p99/p99.9 A/B/C µs`.
    pub fn text(&self) -> String {
        let [a, b, c] = [0.5, 0.99, 0.999].map(|part| self.quantile_us(part));
        format!("p50/p99/p99.9 {a:.0}/{b:.0}/{c:.0} µs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut samples = Samples::new();
        assert!(samples.median().is_nan());
        for value in [3.0, 1.0, 2.0] {
            samples.push(value);
        }
        assert_eq!((samples.median(), samples.lowest(), samples.highest()), (2.0, 1.0, 3.0));
        samples.push(10.0);
        assert_eq!(samples.median(), 2.5);
    }

    #[test]
    fn quantiles_are_exact() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile_us(0.5), 0.0);
        (1..=1000).rev().for_each(|us| latencies.push(us * 1000));
        assert_eq!(latencies.quantile_us(0.5), 500.0);
        assert_eq!(latencies.quantile_us(0.999), 999.0);
        assert_eq!(latencies.quantile_us(1.0), 1000.0);
    }
}
