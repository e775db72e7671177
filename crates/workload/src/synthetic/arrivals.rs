//! Arrival times of requests that do not wait for completions.

use mjolnir_units::Instant;

use super::chance::Chance;
use super::job::Arrival;
use super::logarithm::ln;

/// Fractions of a nanosecond that are kept, so that high rates do not drift.
const FRACTION_BITS: u32 = 20;
const SECOND: u64 = 1_000_000_000;

/// The clock of one job's arrivals.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// Time spent in bursts, in 2^-20 ns.
    active: u128,
    start_ns: u64,
    burst: Option<(u64, u64)>,
    first: bool,
}

impl Arrivals {
    /// `burst` is the time on and off, in nanoseconds.
    pub(super) fn new(start_ns: u64, burst: Option<(u64, u64)>) -> Self {
        Arrivals { active: 0, start_ns, burst, first: true }
    }

    /// The next arrival, at this many a second.
    pub(super) fn next(&mut self, arrival: Arrival, rate: u64, chance: &mut Chance) -> Instant {
        let gap = match arrival {
            Arrival::Linear => (u128::from(SECOND) << FRACTION_BITS) / u128::from(rate),
            Arrival::Poisson => {
                // 1 - u is above 0.
                let mean = (SECOND << FRACTION_BITS) as f64 / rate as f64;
                (-ln(1.0 - chance.unit()) * mean) as u128
            }
        };
        // Equal distances begin with a request, random ones with a distance.
        if !(self.first && arrival == Arrival::Linear) {
            self.active = self.active.saturating_add(gap);
        }
        self.first = false;
        let active_ns = u64::try_from(self.active >> FRACTION_BITS).unwrap_or(u64::MAX);
        let ns = match self.burst {
            None => active_ns,
            Some((on, off)) => {
                (active_ns / on).saturating_mul(on.saturating_add(off)) + active_ns % on
            }
        };
        Instant(self.start_ns.saturating_add(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_distances_do_not_drift() {
        let mut arrivals = Arrivals::new(5, None);
        let mut chance = Chance::new(0, 0, 0);
        let times: Vec<u64> =
            (0..3001).map(|_| arrivals.next(Arrival::Linear, 3000, &mut chance).0).collect();
        assert_eq!(times[0], 5);
        assert_eq!(times[1], 5 + 333_333);
        assert!(times[3000].abs_diff(SECOND + 5) <= 1, "{}", times[3000]);
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_spread() {
        let mut arrivals = Arrivals::new(0, None);
        let mut chance = Chance::new(1, 0, 0);
        let times: Vec<u64> = (0..200_000)
            .map(|_| arrivals.next(Arrival::Poisson, 1_000_000, &mut chance).0)
            .collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread =
            gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1000.0).abs() < 10.0, "{mean}");
        assert!((spread.sqrt() - 1000.0).abs() < 20.0, "{}", spread.sqrt());
    }

    #[test]
    fn bursts_leave_pauses() {
        let mut arrivals = Arrivals::new(0, Some((10_000_000, 90_000_000)));
        let mut chance = Chance::new(1, 0, 0);
        let times: Vec<u64> =
            (0..30).map(|_| arrivals.next(Arrival::Linear, 1000, &mut chance).0).collect();
        assert_eq!(times[9], 9_000_000);
        assert_eq!(times[10], 100_000_000);
        assert_eq!(times[29], 209_000_000);
    }
}
