//! Ranks drawn by Zipf's law, by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion
//! to generate variates from monotone discrete distributions, ACM TOMACS 6(3), 1996).
//!
//! Needs no table, takes about one try a draw, and no more for a large range than for a small one.

use super::chance::Chance;
use super::logarithm::{exp, ln};

/// Draws rank k of 1 to n with a chance proportional to 1/k^theta.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    count: f64,
    ranks: u64,
    theta: f64,
    /// H(1.5) - 1 and H(n + 0.5), between which the inverse is taken.
    low: f64,
    high: f64,
    /// How near above a rank a draw is surely that rank.
    sure: f64,
}

impl Zipf {
    /// The law for ranks 1 to `ranks`. `theta` is from 0 (all alike) to 10.
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        assert!(ranks > 0 && (0.0..=10.0).contains(&theta), "checked by the specification");
        let mut law = Zipf { count: ranks as f64, ranks, theta, low: 0.0, high: 0.0, sure: 0.0 };
        law.low = law.integral(1.5) - 1.0;
        law.high = law.integral(law.count + 0.5);
        law.sure = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// A rank, from 0.
    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let u = self.high + chance.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x + 0.5).clamp(1.0, self.count) as u64;
            let at = rank as f64;
            if at - x <= self.sure || u >= self.integral(at + 0.5) - self.density(at) {
                return rank.min(self.ranks) - 1;
            }
        }
    }

    /// h(x) = 1 / x^theta.
    fn density(&self, x: f64) -> f64 {
        exp(-self.theta * ln(x))
    }

    /// H(x), the integral of h from 1 to x: (x^(1 - theta) - 1) / (1 - theta), or ln x at theta 1.
    fn integral(&self, x: f64) -> f64 {
        let ln_x = ln(x);
        power_ratio((1.0 - self.theta) * ln_x) * ln_x
    }

    /// The inverse of H.
    fn inverse(&self, u: f64) -> f64 {
        // Rounding may take it below -1, where there is no logarithm.
        let t = (u * (1.0 - self.theta)).max(-1.0 + f64::EPSILON);
        exp(log_ratio(t) * u)
    }
}

/// (e^x - 1) / x.
fn power_ratio(x: f64) -> f64 {
    if x.abs() < 1e-4 {
        1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0)))
    } else {
        (exp(x) - 1.0) / x
    }
}

/// ln(1 + x) / x.
fn log_ratio(x: f64) -> f64 {
    if x.abs() < 1e-4 {
        1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x / 5.0)))
    } else {
        ln(1.0 + x) / x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: u64 = 100_000;
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 2.5] {
            for ranks in [1, 2, 10, 100] {
                let law = Zipf::new(ranks, theta);
                let mut chance = Chance::new(ranks, 3, 4);
                let mut counts = vec![0u64; ranks as usize];
                for _ in 0..DRAWS {
                    counts[law.draw(&mut chance) as usize] += 1;
                }
                let weight = |rank: usize| 1.0 / (rank as f64 + 1.0).powf(theta);
                let total: f64 = (0..ranks as usize).map(weight).sum();
                // Chi-squared with up to 99 degrees of freedom: below 160 but for one in 10,000.
                let chi: f64 = (0..ranks as usize)
                    .map(|rank| {
                        let wanted = DRAWS as f64 * weight(rank) / total;
                        (counts[rank] as f64 - wanted) * (counts[rank] as f64 - wanted) / wanted
                    })
                    .sum();
                let bound = ranks as f64 + 6.0 * (2.0 * ranks as f64).sqrt();
                assert!(chi < bound, "theta {theta}, {ranks} ranks: {chi:.1} is above {bound:.1}");
            }
        }
    }

    #[test]
    fn large_ranges_are_drawn_from_to_their_end() {
        for theta in [0.0, 0.9, 1.0, 1.5, 10.0] {
            let ranks = 1 << 47;
            let law = Zipf::new(ranks, theta);
            let mut chance = Chance::new(1, 2, 3);
            let highest = (0..10_000).map(|_| law.draw(&mut chance)).max().unwrap();
            assert!(highest < ranks);
            if theta == 0.0 {
                assert!(highest > ranks / 2);
            }
        }
    }
}
