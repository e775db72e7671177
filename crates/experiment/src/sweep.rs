//! From an experiment to its points: every combination of the swept values.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::file::{Experiment, Where};
use super::kinds::Kinds;
use super::mistake::{Mistake, Place, nearest_hint};
use super::results::point_name;
use super::{Kind, keys};

/// The most points that a sweep may have.
const POINTS_MAX: usize = 100_000;

/// The value of a swept key at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Coordinate {
    /// A number.
    Number(f64),
    /// A word, or a table's label.
    Word(String),
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coordinate::Number(number) => number.fmt(f),
            Coordinate::Word(word) => f.write_str(word),
        }
    }
}

/// What has no shorter name.
fn as_json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The shortest text of a policy, if it is one.
fn policy(value: &Value) -> Option<String> {
    mjolnir_policy::word(value.clone())
}

impl Coordinate {
    /// The coordinate of a point that has this value of a key.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Integer(number) => Coordinate::Number(*number as f64),
            Value::Float(number) => Coordinate::Number(*number),
            Value::Table(table) => match table.get("label").and_then(Value::as_str) {
                Some(label) => Coordinate::Word(label.to_owned()),
                None => Coordinate::Word(policy(value).unwrap_or_else(|| as_json(value))),
            },
            Value::String(word) => Coordinate::Word(policy(value).unwrap_or_else(|| word.clone())),
            other => Coordinate::Word(as_json(other)),
        }
    }

    /// Whether it is what a file wrote.
    pub(super) fn is(&self, value: &Value) -> bool {
        match value {
            Value::Array(values) => values.iter().any(|value| self.is(value)),
            value => *self == Coordinate::of(value) || value.as_str() == Some(&self.to_string()),
        }
    }
}

/// One thing to run, with one or more seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The case, by its name; `None` where there are no cases.
    pub case: Option<String>,
    /// The sort of run.
    pub kind: String,
    /// The value of each swept key.
    pub coordinates: BTreeMap<String, Coordinate>,
    /// The whole configuration.
    pub configuration: Table,
    /// Whether it is one of a quick run that the full one has not got just so.
    pub made_smaller: bool,
}

/// What is asked for besides the file.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Take what the file says for quick runs.
    pub quick: bool,
    /// The first seed, instead of the file's.
    pub seed: Option<u64>,
    /// How many seeds, instead of the file's.
    pub seeds: Option<u32>,
    /// Dotted keys of the configuration with other values. A swept key is swept no more, or over
    /// the values of a list.
    pub set: Vec<(String, Value)>,
}

/// An experiment, laid out as points and seeds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// Whether it is the quick variant.
    pub quick: bool,
    /// The points, in order: cases as in the file, then by key; the last key changes fastest.
    pub points: Vec<Point>,
    /// The seeds of each point.
    pub seeds: Vec<u64>,
    /// The kinds that its points are of.
    pub(super) kinds: Kinds,
}

impl Plan {
    /// Reads an experiment from the text of its file, which errors call `name`, and lays it out.
    /// It may ask for `kinds`.
    ///
    /// # Errors
    ///
    /// The first mistake, in the file or in the changes.
    pub fn new(name: &str, text: &str, changes: &Changes, kinds: &Kinds) -> Result<Plan, Mistake> {
        let experiment = Experiment::parse(name, text)?;
        let place = Place { name, text };
        let mut points = points(&experiment, changes, kinds, &place)?;
        if changes.quick {
            note_made_smaller(&mut points, &experiment, changes, &place);
        }
        let count = match changes.seeds {
            Some(seeds) => seeds,
            None if changes.quick => experiment.quick.seeds.unwrap_or(experiment.seeds),
            None => experiment.seeds,
        };
        let first = changes.seed.unwrap_or(experiment.seed);
        let seeds: Vec<u64> =
            (0..u64::from(count.max(1))).map(|number| first.wrapping_add(number)).collect();
        if points.len() > 1 || seeds.len() > 1 {
            alone(&points, seeds.len(), kinds, &place)?;
        }
        Ok(Plan { experiment, quick: changes.quick, points, seeds, kinds: kinds.clone() })
    }
}

fn points(
    experiment: &Experiment,
    changes: &Changes,
    kinds: &Kinds,
    place: &Place<'_>,
) -> Result<Vec<Point>, Mistake> {
    let mut all = Vec::new();
    for (index, base) in bases(experiment, changes)?.into_iter().enumerate() {
        let field = match base.case {
            Some(_) => format!("case.{index}.kind"),
            None => "kind".to_owned(),
        };
        let Some(runner) = kinds.by_name(&base.kind) else {
            let hint = nearest_hint(&base.kind, kinds.names());
            let what = format!("no kind of run is called {:?}{hint}", base.kind);
            return Err(place.at(&field, what));
        };
        for point in product(base, all.len(), place)? {
            check(runner, &point, index, (place, &changes.set))?;
            all.push(point);
        }
    }
    Ok(all)
}

/// Notes which points of a quick run the full one has not got just so: what was published is not
/// to be compared with them.
fn note_made_smaller(
    points: &mut [Point],
    experiment: &Experiment,
    changes: &Changes,
    place: &Place<'_>,
) {
    let changes = Changes { quick: false, ..changes.clone() };
    let mut full = BTreeMap::new();
    for base in bases(experiment, &changes).unwrap_or_default() {
        let found = product(base, full.len(), place).unwrap_or_default();
        let named = |point: Point| {
            (point_name(point.case.as_deref(), &point.coordinates), point.configuration)
        };
        full.extend(found.into_iter().map(named));
    }
    for point in points {
        let name = point_name(point.case.as_deref(), &point.coordinates);
        point.made_smaller = full.get(&name) != Some(&point.configuration);
    }
}

/// A case, or the whole where there are none: what its points have in common, and what is swept.
struct Base {
    case: Option<String>,
    kind: String,
    configuration: Table,
    sweep: BTreeMap<String, Vec<Value>>,
}

fn bases(experiment: &Experiment, changes: &Changes) -> Result<Vec<Base>, Mistake> {
    let mut bases = Vec::new();
    let empty = Default::default();
    let cases: Vec<_> = match experiment.case.is_empty() {
        true => vec![None],
        false => experiment.case.iter().map(Some).collect(),
    };
    for case in cases {
        let mut configuration = experiment.configuration.clone();
        let mut sweep = BTreeMap::new();
        let mut layers = vec![(&experiment.configuration, &experiment.sweep)];
        if let Some(case) = case {
            layers.push((&case.configuration, &case.sweep));
        }
        if changes.quick {
            let quick = &experiment.quick;
            layers.push((&quick.configuration, &quick.sweep));
            let quick = case.map_or(&empty, |case| &case.quick);
            layers.push((&quick.configuration, &quick.sweep));
        }
        for (over, lists) in layers {
            keys::merge(&mut configuration, over);
            sweep.extend(keys::lists(lists).0);
        }
        sweep.retain(|_, values| !values.is_empty());
        let kind = case.and_then(|case| case.kind.as_ref()).or(experiment.kind.as_ref());
        let kind = kind.cloned().unwrap_or_default();
        bases.push(Base { case: case.map(|case| case.name.clone()), kind, configuration, sweep });
    }
    for (key, value) in &changes.set {
        set(&mut bases, key, value)?;
    }
    Ok(bases)
}

/// Sets a key from the command line in every case that has it; in all, if none has.
fn set(bases: &mut [Base], key: &str, value: &Value) -> Result<(), Mistake> {
    let has =
        |base: &Base| base.sweep.contains_key(key) || keys::get(&base.configuration, key).is_some();
    let everywhere = !bases.iter().any(has);
    for base in bases.iter_mut().filter(|base| everywhere || has(base)) {
        if let Some((swept, _)) = base.sweep.iter().find(|swept| covers(swept, key, value)) {
            return Err(Mistake(format!(
                "--set {key}: {swept} is swept, and its values would lie over this; set {swept}"
            )));
        }
        match (base.sweep.get_mut(key), value) {
            (Some(values), Value::Array(others)) if !others.is_empty() => {
                values.clone_from(others);
            }
            (Some(values), value) => *values = vec![value.clone()],
            (None, value) => {
                keys::set(&mut base.configuration, key, value.clone()).map_err(|part| {
                    Mistake(format!("--set {key}: {part} is a value, and has nothing within"))
                })?
            }
        }
    }
    Ok(())
}

/// Whether a swept key's values replace a value, or something in it: tables are joined, so what lies
/// beside them counts.
fn covers((swept, values): &(&String, &Vec<Value>), key: &str, value: &Value) -> bool {
    let has = |value: &Value, rest: &str| match value {
        Value::Table(table) => keys::get(table, rest).is_some(),
        _ => true,
    };
    match (keys::within(key, swept), keys::within(swept, key)) {
        (Some(rest), _) => values.iter().any(|value| has(value, rest)),
        (_, Some(rest)) => has(value, rest),
        _ => false,
    }
}

/// Every combination of what is swept; there are `before` points in other cases.
fn product(base: Base, before: usize, place: &Place<'_>) -> Result<Vec<Point>, Mistake> {
    let Base { case, kind, configuration, sweep } = base;
    let count = sweep.values().try_fold(1, |n: usize, values| n.checked_mul(values.len()));
    if count.is_none_or(|count| before + count > POINTS_MAX) {
        let what = format!("the sweep has more than {POINTS_MAX} points");
        return Err(place.at("sweep", what));
    }
    let coordinates = BTreeMap::new();
    let mut points = vec![Point { case, kind, coordinates, configuration, made_smaller: false }];
    for (key, values) in &sweep {
        let mut longer = Vec::with_capacity(points.len() * values.len());
        for point in &points {
            for value in values {
                let mut point = point.clone();
                point.coordinates.insert(key.clone(), Coordinate::of(value));
                let mut value = value.clone();
                if let Value::Table(table) = &mut value {
                    table.remove("label");
                }
                keys::set(&mut point.configuration, key, value).map_err(|part| {
                    let what = format!("{key:?}: {part} is a value, and has nothing within");
                    place.at(&format!("sweep.{key}"), what)
                })?;
                longer.push(point);
            }
        }
        points = longer;
    }
    Ok(points)
}

/// Asks the kind whether it can run a point, and finds the line of what it names.
fn check(
    kind: &dyn Kind,
    point: &Point,
    case: usize,
    (place, set): (&Place<'_>, &[(String, Value)]),
) -> Result<(), Mistake> {
    let Err(why) = kind.check(&point.configuration) else { return Ok(()) };
    // What the command line named is no mistake of the file.
    let words: Vec<&str> = why.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let named = |key: &&String| words.contains(&key.rsplit('.').next().unwrap_or(key));
    if let Some(key) = set.iter().map(|(key, _)| key).find(named) {
        return Err(Mistake(format!("--set {key}: {why}")));
    }
    // The sentence begins with the key, as kinds are asked to.
    let key = why.split([' ', ':', '=', ',']).next().unwrap_or_default().trim_matches('`');
    let fields = [
        format!("case.{case}.sweep.{key}"),
        format!("sweep.{key}"),
        format!("case.{case}.configuration.{key}"),
        format!("configuration.{key}"),
    ];
    let written = |field: &&String| {
        // Exactly there, and not merely the table above.
        let last = key.rsplit('.').next().unwrap_or(key);
        let line = place.line(field);
        line.is_some_and(|line| place.text.lines().nth(line - 1).is_some_and(|l| l.contains(last)))
    };
    let field = fields.iter().find(written).unwrap_or(&fields[3]);
    Err(place.of(key, field, &why))
}

/// Refuses runs that write files of their own: all of them would write the same.
fn alone(points: &[Point], seeds: usize, kinds: &Kinds, place: &Place<'_>) -> Result<(), Mistake> {
    for point in points {
        let outputs = kinds.by_name(&point.kind).map(|kind| kind.outputs(&point.configuration));
        if let Some(key) = outputs.iter().flatten().next() {
            let what = format!(
                "{key}: all {} points with {seeds} seeds each would write this one file; leave \
                 it out, or run one point with one seed",
                points.len()
            );
            return Err(place.at(&format!("configuration.{key}"), what));
        }
    }
    Ok(())
}

/// Whether a point is among those that a figure or a published number means.
pub(super) fn matches(
    only: &Where,
    case: Option<&str>,
    coordinates: &BTreeMap<String, Coordinate>,
) -> bool {
    only.iter().all(|(key, value)| match key.as_str() {
        "case" => case.is_some_and(|case| Coordinate::Word(case.to_owned()).is(value)),
        key => coordinates.get(key).is_some_and(|coordinate| coordinate.is(value)),
    })
}
