//! Experiment files: what a person writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::keys;
use super::mistake::{Mistake, Place, nearest_hint};
use super::sweep::Coordinate;

/// An experiment: what to run, over which values, and what to show of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name in small letters, digits and hyphens.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// Where the question comes from: a paper's figure or table, say.
    pub source: String,
    /// What it answers.
    pub question: String,
    /// The sort of run, unless each case says its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The first seed.
    #[serde(default = "one_seed")]
    pub seed: u64,
    /// How many seeds each point is run with.
    #[serde(default = "one")]
    pub seeds: u32,
    /// What a reader of the results must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What all points have in common; what may stand in it is the kind's affair.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub configuration: Table,
    /// Dotted keys of the configuration, each with the list of its values; every combination is a
    /// point. A value that is a table is laid upon the configuration; its `label` names it. A policy with its
    /// parameters, `{ name = "dac", classes = 4 }`, needs no label.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub sweep: Table,
    /// Variants, each with changes to configuration and sweep; or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub case: Vec<Case>,
    /// What is drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figure: Vec<Figure>,
    /// Published numbers, to stand beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<Paper>,
    /// What differs in a quick run.
    #[serde(default)]
    pub quick: Quick,
}

fn one_seed() -> u64 {
    1
}

fn one() -> u32 {
    1
}

/// A variant of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What figures and tables call it.
    pub name: String,
    /// The sort of run, if it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Laid upon the experiment's.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub configuration: Table,
    /// Lists here stand in place of the experiment's of the same key; an empty one takes the key
    /// out of the sweep.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub sweep: Table,
    /// What differs in a quick run, besides.
    #[serde(default)]
    pub quick: Quick,
}

/// What differs in a quick run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Laid upon the configuration.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub configuration: Table,
    /// Lists that stand in place of the sweep's.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub sweep: Table,
    /// How many seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<u32>,
}

/// Which points: a swept key (or `case`) with the value, or the values, that it must have.
pub type Where = BTreeMap<String, Value>;

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name of its file, without the ending.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// What stands below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// A course that runs recorded, by its name: it is drawn, and `x` and `y` are not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<String>,
    /// Further courses in the same figure, of the same unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub besides: Vec<String>,
    /// A swept key, `case`, or the name of a number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub x: String,
    /// Names of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub y: Vec<String>,
    /// Swept keys (or `case`) that tell series apart; if not said, all but `x` that have several
    /// values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Vec<String>>,
    /// Which points; all if not said.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Where,
    /// What stands along the x axis, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_label: Option<String>,
    /// What stands along the y axis, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_label: Option<String>,
    /// Whether the x axis is logarithmic at first.
    #[serde(default)]
    pub x_log: bool,
    /// Whether the y axis is logarithmic at first.
    #[serde(default)]
    pub y_log: bool,
    /// How points are drawn.
    #[serde(default)]
    pub style: Style,
    /// Cases whose points are not joined although those of others are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<String>,
}

/// How points of a figure are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Joined by lines; bars where x is no number.
    #[default]
    Lines,
    /// Each for itself.
    Points,
    /// As bars.
    Bars,
}

/// Published numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// What they are and where they stand.
    pub what: String,
    /// The name of the number of ours that they stand beside.
    pub number: String,
    /// Which points.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: Where,
    /// The one value, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The swept key (or `case`) that tells several values apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The values, by what that key has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// The relative difference up to which ours counts as equal.
    #[serde(default = "two_percent")]
    pub within: f64,
    /// Why ours differs, or why it should not.
    pub why: String,
}

fn two_percent() -> f64 {
    0.02
}

/// Whether x can be nothing but a swept key with a slip in it. Which numbers there are is known only
/// once something has run, but their names have no dots, and are not a letter away from a key.
fn is_slip(x: &str, swept: &[String]) -> bool {
    let near = |key: &String| strsim::damerau_levenshtein(key, x) == 1;
    !swept.iter().any(|key| key == x) && (x.contains('.') || x.len() > 2 && swept.iter().any(near))
}

/// Whether a name can be that of a file everywhere.
fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 80 && !name.starts_with('-') && name.chars().all(fits)
}

impl Experiment {
    /// An experiment from the text of its file, which errors call `name`.
    ///
    /// # Errors
    ///
    /// The first mistake.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, Mistake> {
        let place = Place { name, text };
        let experiment: Experiment = toml::from_str(text).map_err(|error| place.toml(&error))?;
        experiment.check(&place)?;
        Ok(experiment)
    }

    /// The keys that some case sweeps, and `case` if there are cases.
    pub fn swept_keys(&self) -> Vec<String> {
        let sweeps = self.case.iter().flat_map(|case| [&case.sweep, &case.quick.sweep]);
        let sweeps = sweeps.chain([&self.sweep, &self.quick.sweep]);
        let mut keys: Vec<String> =
            sweeps.flat_map(|sweep| keys::lists(sweep).0).map(|(key, _)| key).collect();
        if !self.case.is_empty() {
            keys.push("case".to_owned());
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Refuses names that are none of files, or of parts of a page.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn check_names(&self) -> Result<(), String> {
        let figures = self.figure.iter().map(|figure| &figure.name);
        match [&self.name].into_iter().chain(figures).find(|name| !is_plain(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name:?} is no name of an experiment or a figure: small letters, digits and hyphens"
            )),
        }
    }

    fn check(&self, place: &Place<'_>) -> Result<(), Mistake> {
        if !is_plain(&self.name) || self.name == "all" {
            let name = &self.name;
            let what =
                format!("name {name:?} must be small letters, digits and hyphens, not \"all\"");
            return Err(place.at("name", what));
        }
        if self.seeds == 0 || self.quick.seeds == Some(0) {
            return Err(place.at("seeds", "seeds is 0: write at least 1"));
        }
        self.check_cases(place)?;
        let swept = self.swept_keys();
        let known = |field: &str, key: &str| match swept.iter().any(|known| known == key) {
            true => Ok(()),
            false => {
                let hint = nearest_hint(key, swept.iter().map(String::as_str));
                Err(place.at(field, format!("{key:?} is not swept{hint}")))
            }
        };
        for (index, figure) in self.figure.iter().enumerate() {
            let field = |name: &str| format!("figure.{index}.{name}");
            let name = &figure.name;
            if !is_plain(name) || self.figure[..index].iter().any(|other| other.name == *name) {
                let what = "must be small letters, digits and hyphens, and no other figure's";
                return Err(place.at(&field("name"), format!("figure name {name:?} {what}")));
            }
            let said = (figure.x.is_empty(), figure.y.is_empty());
            match (&figure.course, said) {
                (Some(_), (true, true)) | (None, (false, false)) => {}
                _ => {
                    let what = format!("figure {name:?} needs either x and y, or course alone");
                    return Err(place.at(&field("name"), what));
                }
            }
            if figure.course.is_some() && figure.style == Style::Bars {
                let what = format!("figure {name:?} is a course, which is not drawn as bars");
                return Err(place.at(&field("style"), what));
            }
            if figure.course.is_none() && !figure.besides.is_empty() {
                let what = format!("figure {name:?} has courses besides none: say course too");
                return Err(place.at(&field("besides"), what));
            }
            if is_slip(&figure.x, &swept) {
                known(&field("x"), &figure.x)?;
            }
            for key in figure.series.iter().flatten() {
                known(&field("series"), key)?;
            }
            for key in figure.only.keys() {
                known(&field("where"), key)?;
            }
        }
        for (index, paper) in self.paper.iter().enumerate() {
            let field = |name: &str| format!("paper.{index}.{name}");
            for key in paper.only.keys() {
                known(&field("where"), key)?;
            }
            if let Some(key) = &paper.by {
                known(&field("by"), key)?;
            }
            if paper.value.is_some() == paper.by.is_some()
                || paper.by.is_some() == paper.values.is_empty()
            {
                let what = format!("paper {:?} needs either value, or by and values", paper.what);
                return Err(place.at(&field("what"), what));
            }
            let mut values = paper.value.iter().chain(paper.values.values());
            if !values.all(|value| value.is_finite()) {
                let what = format!("paper {:?} has a value that is no number", paper.what);
                return Err(place.at(&field("what"), what));
            }
            if paper.within.is_nan() || paper.within < 0.0 {
                let what = format!("within = {}: write a share, not below 0", paper.within);
                return Err(place.at(&field("within"), what));
            }
        }
        Ok(())
    }

    fn check_cases(&self, place: &Place<'_>) -> Result<(), Mistake> {
        let mut parts =
            vec![("sweep".to_owned(), &self.sweep), ("quick.sweep".to_owned(), &self.quick.sweep)];
        let mut configurations = vec![
            ("configuration".to_owned(), &self.configuration),
            ("quick.configuration".to_owned(), &self.quick.configuration),
        ];
        for (index, case) in self.case.iter().enumerate() {
            let name = &case.name;
            let at = format!("case.{index}");
            if name.is_empty() || self.case[..index].iter().any(|other| other.name == *name) {
                let what = format!("case name {name:?} is empty, or another case's");
                return Err(place.at(&format!("{at}.name"), what));
            }
            parts.push((format!("{at}.sweep"), &case.sweep));
            parts.push((format!("{at}.quick.sweep"), &case.quick.sweep));
            configurations.push((format!("{at}.configuration"), &case.configuration));
            configurations.push((format!("{at}.quick.configuration"), &case.quick.configuration));
        }
        if self.kind.is_none()
            && (self.case.is_empty() || self.case.iter().any(|c| c.kind.is_none()))
        {
            return Err(place.at("name", "kind must be said, for the whole or for each case"));
        }
        for (at, sweep) in parts {
            let (found, wrong) = keys::lists(sweep);
            if let Some(key) = wrong.first() {
                let what = format!("sweep of {key:?} must be a list of values");
                return Err(place.at(&format!("{at}.{key}"), what));
            }
            for (key, values) in found {
                let unlabelled = |value: &&Value| match value {
                    Value::Table(table) => !["label", "name"]
                        .iter()
                        .any(|key| table.get(*key).is_some_and(Value::is_str)),
                    Value::Array(_) | Value::Datetime(_) => true,
                    Value::Float(number) => !number.is_finite(),
                    _ => false,
                };
                if let Some(value) = values.iter().find(unlabelled) {
                    let what = format!(
                        "sweep of {key:?} has a value that is no number, word, policy or table with a \
                         label: {value:?}"
                    );
                    return Err(place.at(&format!("{at}.{key}"), what));
                }
                // Points are known by them.
                let mut known = BTreeSet::new();
                let mut coordinates = values.iter().map(|value| Coordinate::of(value).to_string());
                if let Some(again) =
                    coordinates.find(|coordinate| !known.insert(coordinate.clone()))
                {
                    let what = format!("sweep of {key:?} has {again} twice");
                    return Err(place.at(&format!("{at}.{key}"), what));
                }
            }
        }
        for (at, configuration) in configurations {
            if let Some(key) = not_a_number(configuration) {
                let what = format!("{key:?} is a number that is not finite, or a date");
                return Err(place.at(&format!("{at}.{key}"), what));
            }
        }
        Ok(())
    }
}

/// The first key that holds what JSON has no word for.
fn not_a_number(table: &Table) -> Option<String> {
    fn wrong(value: &Value) -> Option<String> {
        match value {
            Value::Float(number) => (!number.is_finite()).then(String::new),
            Value::Datetime(_) => Some(String::new()),
            Value::Array(values) => values.iter().find_map(wrong),
            Value::Table(table) => not_a_number(table),
            _ => None,
        }
    }
    table.iter().find_map(|(key, value)| {
        let within = wrong(value)?;
        Some(if within.is_empty() { key.clone() } else { format!("{key}.{within}") })
    })
}
