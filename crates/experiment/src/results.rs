//! Results of an experiment, as JSON and CSV: they say themselves what they are results of.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ledger::{remove_if_there, write_whole};
use super::statistics::Estimate;
use super::sweep::Coordinate;
use super::{Experiment, Outcome, Plan, Point, Version};

/// The version of this form of results.
const FORMAT: u32 = 1;

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this form.
    pub format: u32,
    /// The program.
    #[serde(flatten)]
    pub version: Version,
    /// Whether it was the quick variant.
    pub quick: bool,
    /// The seeds that each point was run with.
    pub seeds: Vec<u64>,
    /// The experiment's file.
    pub experiment: Experiment,
    /// The points, in the order of the sweep.
    pub points: Vec<PointResult>,
    /// Runs that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failed>,
}

/// What was found at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The case, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The sort of run.
    pub kind: String,
    /// The value of each swept key.
    pub coordinates: BTreeMap<String, Coordinate>,
    /// The whole configuration.
    pub configuration: serde_json::Value,
    /// Whether it was measured by the clock of a machine, and so differs from run to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_clock: bool,
    /// Whether it is one of a quick run that the full one has not got just so: it is not to be
    /// compared with what was published.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made_smaller: bool,
    /// Each number over the seeds.
    pub numbers: BTreeMap<String, Estimate>,
    /// Each run.
    pub runs: Vec<SeedResult>,
}

/// What one run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedResult {
    /// Its seed.
    pub seed: u64,
    /// What it measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// The point, in words.
    pub point: String,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub why: String,
}

impl Failed {
    pub(super) fn new(point: &Point, seed: u64, why: &str) -> Failed {
        let point = point_name(point.case.as_deref(), &point.coordinates);
        Failed { point, seed, why: why.to_owned() }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, seed {}: {}", self.point, self.seed, self.why)
    }
}

/// A point in words: its case and its coordinates.
pub(super) fn point_name(case: Option<&str>, coordinates: &BTreeMap<String, Coordinate>) -> String {
    let case = case.map(str::to_owned);
    let parts = coordinates.iter().map(|(key, value)| format!("{key} = {value}"));
    let parts: Vec<String> = case.into_iter().chain(parts).collect();
    if parts.is_empty() { "the only point".to_owned() } else { parts.join(", ") }
}

/// A run, as the runner hands it over.
pub(super) struct Run {
    pub point: usize,
    pub seed: u64,
    pub outcome: Result<Outcome, String>,
}

impl Results {
    pub(super) fn new(plan: &Plan, version: &Version, runs: Vec<Run>) -> Results {
        let mut failures = Vec::new();
        let mut points: Vec<PointResult> =
            plan.points.iter().map(|point| PointResult::new(plan, point)).collect();
        for run in runs {
            match run.outcome {
                Ok(outcome) => points[run.point].runs.push(SeedResult { seed: run.seed, outcome }),
                Err(why) => failures.push(Failed::new(&plan.points[run.point], run.seed, &why)),
            }
        }
        points.iter_mut().for_each(PointResult::estimate);
        Results {
            format: FORMAT,
            version: version.clone(),
            quick: plan.quick,
            seeds: plan.seeds.clone(),
            experiment: plan.experiment.clone(),
            points,
            failures,
        }
    }

    /// The names of all numbers.
    pub fn number_names(&self) -> BTreeSet<&str> {
        self.points.iter().flat_map(|point| point.numbers.keys()).map(String::as_str).collect()
    }

    /// The keys that points differ in, or that at least they have.
    pub fn coordinate_keys(&self) -> BTreeSet<&str> {
        self.points.iter().flat_map(|point| point.coordinates.keys()).map(String::as_str).collect()
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("results are plain data");
        text.push('\n');
        text
    }

    /// As CSV: a row for each run, and at its end the whole configuration as JSON.
    pub fn to_csv(&self) -> String {
        let (keys, names) = (self.coordinate_keys(), self.number_names());
        let mut heads: Vec<&str> = vec!["experiment", "version", "build", "kind", "case"];
        heads.extend(&keys);
        heads.push("seed");
        heads.extend(&names);
        heads.push("configuration");
        let mut text = line(heads.into_iter().map(str::to_owned));
        for point in &self.points {
            for run in &point.runs {
                let mut cells = vec![
                    self.experiment.name.clone(),
                    self.version.version.clone(),
                    self.version.build.clone(),
                    point.kind.clone(),
                    point.case.clone().unwrap_or_default(),
                ];
                let shown = |value: Option<String>| value.unwrap_or_default();
                let coordinates = &point.coordinates;
                cells
                    .extend(keys.iter().map(|&k| shown(coordinates.get(k).map(|c| c.to_string()))));
                cells.push(run.seed.to_string());
                let numbers = &run.outcome.numbers;
                cells.extend(names.iter().map(|&n| shown(numbers.get(n).map(|n| n.to_string()))));
                cells.push(point.configuration.to_string());
                text += &line(cells.into_iter());
            }
        }
        text
    }

    /// Means and confidence intervals as CSV: a row for each point.
    pub fn to_summary_csv(&self) -> String {
        let (keys, names) = (self.coordinate_keys(), self.number_names());
        let mut heads: Vec<String> =
            ["experiment", "version", "build", "kind", "case"].map(str::to_owned).into();
        heads.extend(keys.iter().map(|&key| key.to_owned()));
        heads.push("seeds".to_owned());
        heads
            .extend(names.iter().flat_map(|name| [format!("{name} mean"), format!("{name} ci95")]));
        let mut text = line(heads.into_iter());
        for point in &self.points {
            let mut cells = vec![
                self.experiment.name.clone(),
                self.version.version.clone(),
                self.version.build.clone(),
                point.kind.clone(),
                point.case.clone().unwrap_or_default(),
            ];
            let coordinate = |key: &&str| point.coordinates.get(*key).map(|c| c.to_string());
            cells.extend(keys.iter().map(|key| coordinate(key).unwrap_or_default()));
            cells.push(point.runs.len().to_string());
            for name in &names {
                let number = point.numbers.get(*name);
                cells.push(number.map(|n| n.mean.to_string()).unwrap_or_default());
                cells.push(number.and_then(|n| n.ci95).map(|c| c.to_string()).unwrap_or_default());
            }
            text += &line(cells.into_iter());
        }
        text
    }

    /// Writes `results.json`, `results.csv` and `summary.csv` to a folder.
    ///
    /// # Errors
    ///
    /// A sentence: a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        write_whole(&folder.join("results.csv"), self.to_csv().as_bytes())?;
        write_whole(&folder.join("summary.csv"), self.to_summary_csv().as_bytes())?;
        write_whole(&folder.join("results.json"), self.to_json().as_bytes())
    }

    /// Removes what [`write`](Self::write) wrote before: results that are being replaced must not
    /// pass for those to come.
    ///
    /// # Errors
    ///
    /// A sentence: a file cannot be removed.
    pub fn remove(folder: &Path) -> Result<(), String> {
        let names = ["results.json", "results.csv", "summary.csv"];
        names.iter().try_for_each(|name| remove_if_there(&folder.join(name)))
    }

    /// Reads `results.json`.
    ///
    /// # Errors
    ///
    /// A sentence with file and line: it is not there, or something else.
    pub fn read(path: &Path) -> Result<Results, String> {
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("reading {shown}: {error}"))?;
        let results: Results = serde_json::from_str(&text).map_err(|error| {
            format!("{shown} line {}: these are no results of this program: {error}", error.line())
        })?;
        if results.format != FORMAT {
            let format = results.format;
            return Err(format!("{shown}: results of form {format}; this program reads {FORMAT}"));
        }
        // They become names of files, and go into pages.
        results.experiment.check_names().map_err(|why| format!("{shown}: {why}"))?;
        Ok(results)
    }

    /// Every `results.json` in a folder, or in the folders directly within, by experiment name.
    ///
    /// # Errors
    ///
    /// A sentence: the folder cannot be read, or has no results.
    pub fn read_all(folder: &Path) -> Result<Vec<Results>, String> {
        let shown = folder.display();
        if folder.is_file() {
            return Ok(vec![Results::read(folder)?]);
        }
        let none = |why: String| {
            format!(
                "{why}: run an experiment with `mjolnir lab run NAME --out {shown}`, or give \
                 again the command of one that was interrupted"
            )
        };
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => none(format!("there is no {shown}")),
            _ => format!("reading {shown}: {error}"),
        };
        let mut paths = vec![folder.join("results.json")];
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path().join("results.json"));
        }
        paths.retain(|path| path.is_file());
        paths.sort();
        if paths.is_empty() {
            return Err(none(format!("{shown} has no results")));
        }
        let mut all =
            paths.iter().map(|path| Results::read(path)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.experiment.name.cmp(&b.experiment.name));
        Ok(all)
    }
}

impl PointResult {
    fn new(plan: &Plan, point: &Point) -> PointResult {
        let kind = plan.kinds.by_name(&point.kind).expect("a plan's kinds are known");
        PointResult {
            by_clock: kind.by_clock(),
            made_smaller: point.made_smaller,
            case: point.case.clone(),
            kind: point.kind.clone(),
            coordinates: point.coordinates.clone(),
            configuration: serde_json::to_value(&point.configuration)
                .expect("configurations are checked for what JSON has no word for"),
            numbers: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    fn estimate(&mut self) {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            for (name, number) in &run.outcome.numbers {
                values.entry(name).or_default().push(*number);
            }
        }
        let estimates = values.into_iter().map(|(n, values)| (n.to_owned(), Estimate::of(&values)));
        self.numbers = estimates.collect();
    }

    /// The point in words.
    pub fn name(&self) -> String {
        point_name(self.case.as_deref(), &self.coordinates)
    }

    /// The value of a swept key, or the case.
    pub fn coordinate(&self, key: &str) -> Option<Coordinate> {
        match key {
            "case" => self.case.clone().map(Coordinate::Word),
            key => self.coordinates.get(key).cloned(),
        }
    }

    /// Notes of its runs, each once.
    pub fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.runs.iter().flat_map(|run| &run.outcome.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
