//! What differs between two sets of results.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

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
    /// squares. One run alone is as far from a mean as one more of its runs may be.
    fn of(a: &Estimate, b: &Estimate, by_clock: bool) -> Verdict {
        let half = match (a.ci95, b.ci95) {
            (Some(of_a), Some(of_b)) => of_a.hypot(of_b),
            (Some(of_a), None) => of_a * (a.runs as f64 + 1.0).sqrt(),
            (None, Some(of_b)) => of_b * (b.runs as f64 + 1.0).sqrt(),
            (None, None) if by_clock => return Verdict::ByClock,
            (None, None) => return Verdict::NoInterval,
        };
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
        let mut apart = Apart::default();
        for point in &a.points {
            match others.get(&point.name()) {
                Some(other) => {
                    apart.note(point, other);
                    self.point(name, point, other);
                }
                None => self.remarks.push(format!("{name}: only the first has {}", point.name())),
            }
        }
        self.remarks.extend(apart.remarks().map(|remark| format!("{name}: {remark}")));
        let known = by_name(a);
        for point in b.points.iter().filter(|point| !known.contains_key(&point.name())) {
            self.remarks.push(format!("{name}: only the second has {}", point.name()));
        }
    }

    fn point(&mut self, experiment: &str, a: &PointResult, b: &PointResult) {
        let point = a.name();
        for (number, of_a) in &a.numbers {
            let Some(of_b) = b.numbers.get(number) else {
                self.remarks.push(format!("{experiment}: {point}: only the first has {number}"));
                continue;
            };
            self.numbers_compared += 1;
            // A mean of other seeds, all alike, differs in its last digit at most.
            let apart = (of_a.mean - of_b.mean).abs();
            if apart <= 1e-12 * of_a.mean.abs() {
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

/// In what the configurations of points differ.
#[derive(Default)]
struct Apart {
    /// By the keys in which they do.
    groups: BTreeMap<Vec<String>, Group>,
}

/// Points whose configurations differ in the same keys.
#[derive(Default)]
struct Group {
    /// Both values of each key, as far as all these points have the same.
    values: Vec<Option<[String; 2]>>,
    points: Vec<String>,
}

impl Apart {
    fn note(&mut self, a: &PointResult, b: &PointResult) {
        let mut found = Vec::new();
        differing(Some(&a.configuration), Some(&b.configuration), "", &mut found);
        if found.is_empty() {
            return;
        }
        let (keys, values): (Vec<String>, Vec<[String; 2]>) = found.into_iter().unzip();
        let group = self.groups.entry(keys).or_default();
        if group.points.is_empty() {
            group.values.extend(values.into_iter().map(Some));
        } else {
            for (known, values) in group.values.iter_mut().zip(values) {
                known.take_if(|known| *known != values);
            }
        }
        group.points.push(a.name());
    }

    /// A sentence for each set of keys.
    fn remarks(&self) -> impl Iterator<Item = String> {
        self.groups.iter().map(|(keys, Group { values, points })| {
            let told = |(key, values): (&String, &Option<[String; 2]>)| match values {
                Some([a, b]) => format!("{key} ({a} and {b})"),
                None => key.clone(),
            };
            let keys: Vec<String> = keys.iter().zip(values).map(told).collect();
            let at = match &points[..] {
                [one] => one.clone(),
                [first, others @ ..] => format!("{first} and {} more", others.len()),
                [] => String::new(),
            };
            format!("the configurations differ in {}, at {at}", keys.join(", "))
        })
    }
}

/// The dotted keys in which two values differ, each with both.
fn differing(
    a: Option<&Value>,
    b: Option<&Value>,
    key: &str,
    found: &mut Vec<(String, [String; 2])>,
) {
    if a == b {
        return;
    }
    if let (Some(Value::Object(a)), Some(Value::Object(b))) = (a, b) {
        let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in keys {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            differing(a.get(name), b.get(name), &key, found);
        }
        return;
    }
    let shown = |value: Option<&Value>| match value {
        None => "not said".to_owned(),
        Some(Value::String(word)) => word.clone(),
        Some(Value::Object(_) | Value::Array(_)) => "…".to_owned(),
        Some(other) => other.to_string(),
    };
    found.push((key.to_owned(), [shown(a), shown(b)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_differ_in_the_same_keys_are_one_sentence() {
        let point = |case: &str, configuration: Value| -> PointResult {
            let value = serde_json::json!({
                "case": case, "kind": "k", "coordinates": {}, "configuration": configuration,
                "numbers": {}, "runs": [],
            });
            serde_json::from_value(value).unwrap()
        };
        let mut apart = Apart::default();
        for (case, a, b) in [("one", 1, 2), ("two", 1, 3), ("three", 1, 1)] {
            let ours = serde_json::json!({ "engine": { "cores": a, "victim": "fifo" }, "x": 0 });
            let theirs =
                serde_json::json!({ "engine": { "cores": b, "victim": "fifo" }, "x": b - a });
            apart.note(&point(case, ours), &point(case, theirs));
        }
        apart.note(
            &point("four", serde_json::json!({ "x": 1 })),
            &point("four", serde_json::json!({ "x": 1, "y": "z" })),
        );
        let remarks: Vec<String> = apart.remarks().collect();
        assert_eq!(
            remarks,
            [
                "the configurations differ in engine.cores, x, at one and 1 more",
                "the configurations differ in y (not said and z), at four",
            ]
        );
    }

    #[test]
    fn intervals_decide() {
        let estimate = |mean, ci95| Estimate { mean, ci95, runs: 3 };
        let verdict = |a, b| Verdict::of(&a, &b, false);
        let one = estimate(1.0, Some(0.3));
        assert_eq!(verdict(one, estimate(1.4, Some(0.4))), Verdict::WithinInterval);
        assert_eq!(verdict(one, estimate(1.6, Some(0.4))), Verdict::BeyondInterval);
        assert_eq!(verdict(one, estimate(1.2, None)), Verdict::WithinInterval);
        // Three runs' interval of 0.3: one more of them is within 0.6 of their mean.
        assert_eq!(verdict(one, estimate(1.55, None)), Verdict::WithinInterval);
        assert_eq!(verdict(estimate(1.65, None), one), Verdict::BeyondInterval);
        let single = estimate(1.0, None);
        assert_eq!(verdict(single, estimate(1.1, None)), Verdict::NoInterval);
        let by_clock = |a, b| Verdict::of(&a, &b, true);
        assert_eq!(by_clock(single, estimate(1.1, None)), Verdict::ByClock);
        assert_eq!(by_clock(one, estimate(1.6, Some(0.4))), Verdict::BeyondInterval);
    }
}
