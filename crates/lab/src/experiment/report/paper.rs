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
    let row = |of: &str, published, point: Option<&&PointResult>| Row {
        of: of.to_owned(),
        published,
        ours: point.and_then(|point| point.numbers.get(&paper.number).copied()),
        within: paper.within,
    };
    match (&paper.by, paper.value) {
        (Some(by), _) => {
            let mut rows: Vec<(usize, Row)> = Vec::new();
            for (word, value) in &paper.values {
                let is_it = |point: &&PointResult| {
                    point.coordinate(by).is_some_and(|found| found.to_string() == *word)
                };
                let place = points.iter().position(is_it);
                let found = place.map(|place| &points[place]);
                rows.push((place.unwrap_or(usize::MAX), row(word, *value, found)));
            }
            // In the order of the sweep.
            rows.sort_by_key(|(place, _)| *place);
            rows.into_iter().map(|(_, row)| row).collect()
        }
        (None, Some(value)) => vec![row("", value, points.first())],
        (None, None) => Vec::new(),
    }
}

/// How many published numbers ours agree with, of how many that are there.
pub fn tally(results: &Results) -> (usize, usize) {
    let rows = results.experiment.paper.iter().flat_map(|paper| rows(results, paper));
    let verdicts: Vec<bool> = rows.filter_map(|row| row.agrees()).collect();
    (verdicts.iter().filter(|agrees| **agrees).count(), verdicts.len())
}
