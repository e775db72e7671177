//! Write amplification in closed form, under uniform random overwrites of one page, one append
//! point, and no trims.
//!
//! Everywhere `spare` is the spare factor, (physical - logical) / physical, above 0 and below 1.

/// A random victim: every erase block has the mean utilization.
pub fn random(spare: f64) -> f64 {
    1.0 / spare
}

/// The oldest erase block, and any choice where erase blocks have very many pages: Desnoyers,
/// "Analytic Modeling of SSD Write Performance", SYSTOR 2012.
pub fn fifo(spare: f64) -> f64 {
    let alpha = 1.0 / (1.0 - spare);
    let live = -lambert_w(-alpha * (-alpha).exp()) / alpha;
    1.0 / (1.0 - live)
}

/// The emptiest erase block, of `pages` pages: Desnoyers' form, which the exact mean field agrees
/// with within 0.8 %.
pub fn greedy(spare: f64, pages: f64) -> f64 {
    let alpha = 1.0 / (1.0 - spare);
    let c = (1.0 + 1.0 / (2.0 * pages)) * alpha;
    let least = 0.5 - pages / alpha * lambert_w(-c * (-c).exp());
    pages / (pages - (least - 1.0))
}

/// The emptiest of `choices` drawn at random, for erase blocks of `pages` pages: the fixed point of
/// Van Houdt, "A Mean Field Model for a Class of Garbage Collection Algorithms in Flash-based Solid
/// State Drives", SIGMETRICS 2013.
///
/// With y(j) the share of erase blocks that have at most j live pages, as many fall from j + 1 to j
/// by overwrites, in a steady state, as victims with at most j are taken away and written anew,
/// full: 1 - (1 - y(j))^d of all victims. How live the mean victim is, is found such that the mean
/// erase block has the utilization that the spare factor leaves.
pub fn d_choices(spare: f64, pages: u32, choices: u32) -> f64 {
    let utilization = 1.0 - spare;
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let victim = 0.5 * (low + high);
        if mean_utilization(victim, pages, choices, utilization) < utilization {
            low = victim;
        } else {
            high = victim;
        }
    }
    1.0 / (1.0 - 0.5 * (low + high))
}

/// The mean utilization that goes with victims of a mean live share `victim`, each the emptiest of
/// `choices`, if overwrites strike as under `utilization`.
fn mean_utilization(victim: f64, pages: u32, choices: u32, utilization: f64) -> f64 {
    // Between two victims there are N(1 - victim) overwrites; with M erase blocks that hold
    // N * utilization * M live pages, a live page is struck at a rate, per victim and times M, of
    let strike = (1.0 - victim) / utilization;
    // strike * (j + 1) * (y(j + 1) - y(j)) = 1 - (1 - y(j))^d, with y(N) = 1: solved downwards.
    let d = choices as i32;
    let mut above = 1.0;
    let mut sum = f64::from(pages);
    for j in (0..pages).rev() {
        let rate = strike * f64::from(j + 1);
        // One root between 0 and above.
        let (mut low, mut high) = (0.0, above);
        for _ in 0..60 {
            let y: f64 = 0.5 * (low + high);
            if rate * (above - y) > 1.0 - (1.0 - y).powi(d) { low = y } else { high = y }
        }
        above = 0.5 * (low + high);
        sum -= above;
    }
    sum / f64::from(pages)
}

/// Lambert's W on its principal branch, for -1/e <= x < 0, by bisection.
fn lambert_w(x: f64) -> f64 {
    let (mut low, mut high) = (-1.0, 0.0);
    for _ in 0..200 {
        let w: f64 = 0.5 * (low + high);
        if w * w.exp() < x { low = w } else { high = w }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARES: [f64; 5] = [0.07, 0.10, 0.15, 0.20, 0.28];

    fn compare(name: &str, ours: impl Fn(f64) -> f64, published: [f64; 5], within: f64) {
        for (spare, published) in SPARES.into_iter().zip(published) {
            let ratio = ours(spare) / published;
            assert!(
                (ratio - 1.0).abs() < within,
                "{name} at {spare}: {} for {published}",
                ours(spare)
            );
        }
    }

    #[test]
    fn random_and_fifo_are_the_printed_ones() {
        compare("random", random, [14.286, 10.0, 6.667, 5.0, 3.571], 2e-4);
        for (spare, published) in SPARES.into_iter().zip([7.318, 5.179, 3.519, 2.693, 1.992]) {
            assert!((fifo(spare) - published).abs() < 0.001, "{spare}: {}", fifo(spare));
        }
    }

    /// The printed values are the exact mean field's.
    #[test]
    fn greedy_is_the_printed_one() {
        for (pages, published) in [
            (64.0, [6.616, 4.821, 3.354, 2.599, 1.943]),
            (256.0, [7.124, 5.083, 3.476, 2.668, 1.979]),
            (1024.0, [7.268, 5.154, 3.508, 2.687, 1.989]),
        ] {
            compare("greedy", |spare| greedy(spare, pages), published, 0.003);
        }
    }

    #[test]
    fn d_choices_is_the_printed_one() {
        for (choices, published) in [
            (2, [9.635, 6.852, 4.648, 3.533, 2.573]),
            (4, [7.718, 5.554, 3.816, 2.930, 2.164]),
            (10, [6.894, 5.000, 3.464, 2.675, 1.993]),
        ] {
            compare("d-choices", |spare| d_choices(spare, 64, choices), published, 0.001);
        }
    }

    #[test]
    fn one_choice_is_random_and_many_are_greedy() {
        compare("one choice", |spare| d_choices(spare, 64, 1), SPARES.map(random), 1e-3);
        compare(
            "many choices",
            |spare| d_choices(spare, 64, 1000),
            SPARES.map(|s| greedy(s, 64.0)),
            0.01,
        );
    }
}
