//! Published numbers beside ours.

use super::label::number;
use crate::experiment::file::Paper;
use crate::experiment::results::{PointResult, Results};
use crate::experiment::statistics::Estimate;
use crate::experiment::sweep::matches;

/// A published number with ours.
pub struct Row {
    /// Which it is, where there are several of a sort.
    pub of: String,
    pub published: f64,
    /// Ours; none if this run has not got the point.
    pub ours: Option<Estimate>,
    /// The relative difference up to which ours counts as equal.
    pub within: f64,
}

impl Row {
    /// Ours through the published one.
    pub fn ratio(&self) -> Option<f64> {
        let ours = self.ours.as_ref()?.mean;
        (self.published != 0.0).then(|| ours / self.published)
    }

    /// Whether ours counts as equal; none if it is not there.
    pub fn agrees(&self) -> Option<bool> {
        let ours = self.ours.as_ref()?.mean;
        Some((ours - self.published).abs() <= self.within * self.published.abs())
    }

    /// The difference in words.
    pub fn verdict(&self) -> String {
        let Some(agrees) = self.agrees() else {
            return "not in this run".to_owned();
        };
        let Some(ratio) = self.ratio() else {
            return if agrees { "equal".to_owned() } else { "differs".to_owned() };
        };
        let percent = 100.0 * (ratio - 1.0);
        let size = if percent.abs() < 0.005 {
            "equal".to_owned()
        } else {
            let more = if percent > 0.0 { "higher" } else { "lower" };
            format!("{} % {more}", number((percent.abs() * 100.0).round() / 100.0))
        };
        let tolerance = number(100.0 * self.within);
        match agrees {
            true => format!("{size} (within {tolerance} %)"),
            false => format!("{size}, beyond {tolerance} %"),
        }
    }
}

/// The rows of one entry of the file.
pub fn rows(results: &Results, paper: &Paper) -> Vec<Row> {
    let points: Vec<&PointResult> = results
        .points
        .iter()
        .filter(|point| matches(&paper.only, point.case.as_deref(), &point.coordinates))
        .collect();
    // A row for each of the points, which say which they are where there are several.
    let rows_of = |of: &str, published, found: &[(usize, &PointResult)]| -> Vec<(usize, Row)> {
        let row = |of: String, ours| Row { of, published, ours, within: paper.within };
        let ours = |point: &PointResult| point.numbers.get(&paper.number).copied();
        match *found {
            [] => vec![(usize::MAX, row(of.to_owned(), None))],
            [(place, point)] => vec![(place, row(of.to_owned(), ours(point)))],
            _ => {
                let rows =
                    found.iter().map(|&(place, point)| (place, row(point.name(), ours(point))));
                rows.collect()
            }
        }
    };
    let places = || points.iter().copied().enumerate();
    match (&paper.by, paper.value) {
        (Some(by), _) => {
            let mut rows: Vec<(usize, Row)> = Vec::new();
            for (word, value) in &paper.values {
                let is_it = |point: &PointResult| {
                    point.coordinate(by).is_some_and(|found| found.to_string() == *word)
                };
                let found: Vec<_> = places().filter(|(_, point)| is_it(point)).collect();
                rows.extend(rows_of(word, *value, &found));
            }
            // In the order of the sweep.
            rows.sort_by_key(|(place, _)| *place);
            rows.into_iter().map(|(_, row)| row).collect()
        }
        (None, Some(value)) => {
            let rows = rows_of("", value, &places().collect::<Vec<_>>());
            rows.into_iter().map(|(_, row)| row).collect()
        }
        (None, None) => Vec::new(),
    }
}

/// How many published numbers ours agree with, of how many that are there.
pub fn tally(results: &Results) -> (usize, usize) {
    let rows = results.experiment.paper.iter().flat_map(|paper| rows(results, paper));
    let verdicts: Vec<bool> = rows.filter_map(|row| row.agrees()).collect();
    (verdicts.iter().filter(|agrees| **agrees).count(), verdicts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Changes, Kinds, Plan, Version};

    const FILE: &str = r#"
name = "mine"
title = "Mine"
source = "Here"
question = "What?"
kind = "closed-form"
[configuration]
pages = 16
policy.victim = "greedy"
[sweep]
spare = [0.2, 0.3]
[[case]]
name = "one"
[[case]]
name = "other"
[[paper]]
what = "One value"
number = "waf"
value = 2.0
where = { spare = 0.2 }
why = "No reason."
[[paper]]
what = "By spare"
number = "waf"
by = "spare"
values = { "0.2" = 2.0, "0.9" = 1.0 }
why = "No reason."
"#;

    #[test]
    fn every_matching_point_has_a_row() {
        let plan = Plan::new("mine.toml", FILE, &Changes::default(), &Kinds::default()).unwrap();
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let mut results = Results::new(&plan, &version, Vec::new());
        for (point, waf) in results.points.iter_mut().zip([2.0, 1.0, 3.0, 1.0]) {
            point.numbers.insert("waf".to_owned(), Estimate { mean: waf, ci95: None, runs: 1 });
        }
        for paper in &results.experiment.paper {
            let rows = rows(&results, paper);
            let agree: Vec<_> = rows.iter().map(Row::agrees).collect();
            assert_eq!(agree[..2], [Some(true), Some(false)], "{}", paper.what);
            assert!(rows[0].of.contains("one") && rows[1].of.contains("other"));
            assert_eq!(agree[2..], [None][..rows.len() - 2], "{}", paper.what);
        }
        assert_eq!(tally(&results), (2, 4));
    }
}
