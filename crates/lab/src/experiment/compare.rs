//! What differs between two sets of results.

use std::collections::BTreeMap;

use serde::Serialize;

use super::results::{PointResult, Results};
use super::statistics::Estimate;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Numbers that both have.
    pub numbers_compared: usize,
    /// Those that differ.
    pub differences: Vec<Difference>,
    /// What only one has, or why numbers may differ, in sentences.
    pub remarks: Vec<String>,
}

/// A number that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The experiment.
    pub experiment: String,
    /// The point, in words.
    pub point: String,
    /// The number's name.
    pub number: String,
    /// What the first has.
    pub a: Estimate,
    /// What the second has.
    pub b: Estimate,
    /// The second through the first; none where the first is 0.
    pub ratio: Option<f64>,
    /// Whether chance explains it.
    pub verdict: Verdict,
}

/// Whether chance explains a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The difference is within its 95 % confidence interval.
    WithinInterval,
    /// It is not.
    BeyondInterval,
    /// Neither side has several seeds, so there is no interval.
    NoInterval,
    /// As before, and it was measured by the clock: no two runs are the same, so that this
    /// difference says nothing.
    ByClock,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::WithinInterval => "within the confidence interval",
            Verdict::BeyondInterval => "beyond the confidence interval",
            Verdict::NoInterval => "one seed each: no interval",
            Verdict::ByClock => "by the clock, once each: run several seeds",
        })
    }
}

impl Verdict {
    /// The interval of a difference of two means has, in half, the root of the sum of their
    /// squares.
    fn of(a: &Estimate, b: &Estimate, by_clock: bool) -> Verdict {
        if a.ci95.is_none() && b.ci95.is_none() {
            return if by_clock { Verdict::ByClock } else { Verdict::NoInterval };
        }
        let half = a.ci95.unwrap_or(0.0).hypot(b.ci95.unwrap_or(0.0));
        match (a.mean - b.mean).abs() <= half {
            true => Verdict::WithinInterval,
            false => Verdict::BeyondInterval,
        }
    }
}

/// Compares two sets of results: experiments by name, points by case and coordinates.
pub fn compare(a: &[Results], b: &[Results]) -> Comparison {
    let mut found = Comparison::default();
    let by_name = |all: &[Results]| -> BTreeMap<String, Results> {
        all.iter().map(|results| (results.experiment.name.clone(), results.clone())).collect()
    };
    let (first, second) = (by_name(a), by_name(b));
    for (name, results) in &first {
        match second.get(name) {
            Some(other) => found.experiment(results, other),
            None => found.remarks.push(format!("only the first has experiment {name}")),
        }
    }
    for name in second.keys().filter(|name| !first.contains_key(*name)) {
        found.remarks.push(format!("only the second has experiment {name}"));
    }
    found
}

impl Comparison {
    fn experiment(&mut self, a: &Results, b: &Results) {
        let name = &a.experiment.name;
        let quick = |results: &Results| if results.quick { "quick" } else { "full" };
        for (what, of_a, of_b) in [
            ("version", a.version.version.clone(), b.version.version.clone()),
            ("build", a.version.build.clone(), b.version.build.clone()),
            ("variant", quick(a).to_owned(), quick(b).to_owned()),
            ("seeds", format!("{:?}", a.seeds), format!("{:?}", b.seeds)),
        ] {
            if of_a != of_b {
                self.remarks.push(format!("{name}: {what} {of_a} and {of_b}"));
            }
        }
        let by_name = |results: &'_ Results| -> BTreeMap<String, PointResult> {
            results.points.iter().map(|point| (point.name(), point.clone())).collect()
        };
        let others = by_name(b);
        for point in &a.points {
            match others.get(&point.name()) {
                Some(other) => self.point(name, point, other),
                None => self.remarks.push(format!("{name}: only the first has {}", point.name())),
            }
        }
        let known = by_name(a);
        for point in b.points.iter().filter(|point| !known.contains_key(&point.name())) {
            self.remarks.push(format!("{name}: only the second has {}", point.name()));
        }
    }

    fn point(&mut self, experiment: &str, a: &PointResult, b: &PointResult) {
        let point = a.name();
        if a.configuration != b.configuration {
            self.remarks.push(format!("{experiment}: {point}: the configurations differ"));
        }
        for (number, of_a) in &a.numbers {
            let Some(of_b) = b.numbers.get(number) else {
                self.remarks.push(format!("{experiment}: {point}: only the first has {number}"));
                continue;
            };
            self.numbers_compared += 1;
            if of_a == of_b {
                continue;
            }
            self.differences.push(Difference {
                experiment: experiment.to_owned(),
                point: point.clone(),
                number: number.clone(),
                a: *of_a,
                b: *of_b,
                ratio: (of_a.mean != 0.0).then(|| of_b.mean / of_a.mean),
                verdict: Verdict::of(of_a, of_b, a.by_clock || b.by_clock),
            });
        }
        for number in b.numbers.keys().filter(|number| !a.numbers.contains_key(*number)) {
            self.remarks.push(format!("{experiment}: {point}: only the second has {number}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide() {
        let estimate = |mean, ci95| Estimate { mean, ci95, runs: 3 };
        let verdict = |a, b| Verdict::of(&a, &b, false);
        let one = estimate(1.0, Some(0.3));
        assert_eq!(verdict(one, estimate(1.4, Some(0.4))), Verdict::WithinInterval);
        assert_eq!(verdict(one, estimate(1.6, Some(0.4))), Verdict::BeyondInterval);
        assert_eq!(verdict(one, estimate(1.2, None)), Verdict::WithinInterval);
        let single = estimate(1.0, None);
        assert_eq!(verdict(single, estimate(1.1, None)), Verdict::NoInterval);
        let by_clock = |a, b| Verdict::of(&a, &b, true);
        assert_eq!(by_clock(single, estimate(1.1, None)), Verdict::ByClock);
        assert_eq!(by_clock(one, estimate(1.6, Some(0.4))), Verdict::BeyondInterval);
    }
}
