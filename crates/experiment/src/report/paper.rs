//! Published numbers beside ours.

use super::chart::Nothing;
use super::label::number;
use crate::file::Paper;
use crate::mistake::nearest_hint;
use crate::results::{PointResult, Results};
use crate::statistics::Estimate;
use crate::sweep::matches;

/// A published number with ours.
pub struct Row {
    /// Which it is, where there are several of a sort.
    pub of: String,
    pub published: f64,
    /// Ours; none if this run has not got the point, or the point has no such number.
    pub ours: Option<Estimate>,
    /// Whether this run has the point.
    pub is_there: bool,
    /// Whether ours is of a smaller case, of a quick run: the two cannot be compared.
    pub made_smaller: bool,
    /// The relative difference up to which ours counts as equal.
    pub within: f64,
}

impl Row {
    /// Ours through the published one.
    pub fn ratio(&self) -> Option<f64> {
        let ours = self.ours.as_ref()?.mean;
        (self.published != 0.0).then(|| ours / self.published)
    }

    /// Whether ours counts as equal; none if it is not there, or not to be compared.
    pub fn agrees(&self) -> Option<bool> {
        if self.made_smaller {
            return None;
        }
        let ours = self.ours.as_ref()?.mean;
        Some((ours - self.published).abs() <= self.within * self.published.abs())
    }

    /// The difference in words.
    pub fn verdict(&self) -> String {
        if self.made_smaller && self.ours.is_some() {
            return "left to full runs: this quick run is smaller".to_owned();
        }
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
        let row = |of: String, point: Option<&PointResult>| Row {
            of,
            published,
            ours: point.and_then(|point| point.numbers.get(&paper.number).copied()),
            is_there: point.is_some(),
            made_smaller: point.is_some_and(|point| point.made_smaller),
            within: paper.within,
        };
        match *found {
            [] => vec![(usize::MAX, row(of.to_owned(), None))],
            [(place, point)] => vec![(place, row(of.to_owned(), Some(point)))],
            _ => {
                let rows =
                    found.iter().map(|&(place, point)| (place, row(point.name(), Some(point))));
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

/// Why there are published numbers beside which nothing of ours stands: of an entry none, or some.
pub(super) fn troubles(results: &Results) -> Vec<Nothing> {
    let nothing = |paper: &Paper| {
        let rows = rows(results, paper);
        let alone: Vec<&Row> = rows.iter().filter(|row| row.ours.is_none()).collect();
        if alone.is_empty() && !rows.is_empty() {
            return None;
        }
        if alone.len() < rows.len() {
            // What a quick run leaves out, and what failed, is told elsewhere.
            if results.quick || !results.failures.is_empty() {
                return None;
            }
            let of =
                |rows: Vec<&&Row>| rows.iter().map(|row| &*row.of).collect::<Vec<_>>().join(", ");
            let (there, missing): (Vec<_>, Vec<_>) = alone.iter().partition(|row| row.is_there);
            let why = match (missing.is_empty(), &paper.by) {
                (false, Some(by)) => {
                    format!("at {by} = {}: this run has no such points", of(missing))
                }
                _ => format!("at {}: those have no number {:?}", of(there), paper.number),
            };
            let why = format!("published numbers {:?} stand alone {why}", paper.what);
            return Some(Nothing { why, never: false });
        }
        let begin = format!("published numbers {:?} stand alone", paper.what);
        let known = results.number_names();
        if !known.contains(paper.number.as_str()) {
            let hint = nearest_hint(&paper.number, known.iter().copied());
            let why = format!("{begin}: runs have no number {:?}{hint}", paper.number);
            return Some(Nothing { why, never: true });
        }
        // A quick run may well have none of them.
        let why = format!("{begin}: this run has none of their points");
        (!results.quick).then_some(Nothing { why, never: false })
    };
    results.experiment.paper.iter().filter_map(nothing).collect()
}

/// How ours stand beside the published numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that ours agree with.
    pub met: usize,
    /// Those that ours can be compared with.
    pub compared: usize,
    /// Those of which a quick run has a smaller case, so that the two cannot be compared.
    pub made_smaller: usize,
}

impl std::fmt::Display for Tally {
    /// In words; nothing if nothing was published.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { met, compared, made_smaller } = self;
        match (compared, made_smaller) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, "{met} of {compared} met"),
            (0, _) => write!(f, "{made_smaller} left to full runs"),
            _ => write!(f, "{met} of {compared} met, {made_smaller} left to full runs"),
        }
    }
}

/// How many published numbers ours agree with.
pub fn tally(results: &Results) -> Tally {
    let mut tally = Tally::default();
    for row in results.experiment.paper.iter().flat_map(|paper| rows(results, paper)) {
        if let Some(agrees) = row.agrees() {
            tally.compared += 1;
            tally.met += usize::from(agrees);
        }
        tally.made_smaller += usize::from(row.made_smaller && row.ours.is_some());
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::unchecked;
    use crate::{Changes, Plan, Version};

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
        let plan = Plan::new("mine.toml", FILE, &Changes::default(), &unchecked::kinds()).unwrap();
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
        assert_eq!(tally(&results), Tally { met: 2, compared: 4, made_smaller: 0 });
    }

    #[test]
    fn an_entry_beside_which_nothing_stands_is_told() {
        let slip = FILE.replacen("number = \"waf\"", "number = \"wav\"", 1);
        let elsewhere = slip
            .replace("by = \"spare\"\nvalues = { \"0.2\" = 2.0, ", "by = \"spare\"\nvalues = { ");
        let plan =
            Plan::new("mine.toml", &elsewhere, &Changes::default(), &unchecked::kinds()).unwrap();
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let mut results = Results::new(&plan, &version, Vec::new());
        for point in &mut results.points {
            point.numbers.insert("waf".to_owned(), Estimate { mean: 2.0, ci95: None, runs: 1 });
        }
        let told = troubles(&results);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].never && told[0].why.contains("\"wav\"") && told[0].why.contains("\"waf\"")
        );
        assert!(!told[1].never && told[1].why.contains("\"By spare\""), "{told:?}");

        let plan = Plan::new("mine.toml", FILE, &Changes::default(), &unchecked::kinds()).unwrap();
        let mut some = Results::new(&plan, &version, Vec::new());
        some.points = results.points.clone();
        let told = troubles(&some);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            !told[0].never && told[0].why.contains("\"By spare\" stand alone at spare = 0.9:"),
            "{told:?}"
        );
        some.points[0].numbers.clear();
        let told = troubles(&some);
        assert!(
            told[0].why.contains("\"One value\" stand alone at ") && told.len() == 2,
            "{told:?}"
        );
        assert!(told[0].why.contains("one") && !told[0].why.contains("other"), "{told:?}");
        some.quick = true;
        assert_eq!(troubles(&some), [], "a quick run leaves points out");
    }

    #[test]
    fn what_a_quick_run_made_smaller_is_not_compared() {
        let quick = FILE.replace(
            "[[case]]\nname = \"other\"",
            "[[case]]\nname = \"other\"\nquick.configuration = { pages = 8 }",
        );
        let changes = Changes { quick: true, ..Changes::default() };
        let plan = Plan::new("mine.toml", &quick, &changes, &unchecked::kinds()).unwrap();
        let smaller: Vec<bool> = plan.points.iter().map(|point| point.made_smaller).collect();
        assert_eq!(smaller, [false, false, true, true]);
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let mut results = Results::new(&plan, &version, Vec::new());
        for point in &mut results.points {
            point.numbers.insert("waf".to_owned(), Estimate { mean: 2.0, ci95: None, runs: 1 });
        }
        let tally = tally(&results);
        assert_eq!(tally, Tally { met: 2, compared: 2, made_smaller: 2 });
        assert_eq!(tally.to_string(), "2 of 2 met, 2 left to full runs");
        let rows = rows(&results, &results.experiment.paper[0]);
        assert!(rows[1].verdict().starts_with("left to full runs"), "{}", rows[1].verdict());
        let full =
            Plan::new("mine.toml", &quick, &Changes::default(), &unchecked::kinds()).unwrap();
        assert!(full.points.iter().all(|point| !point.made_smaller));
    }
}
