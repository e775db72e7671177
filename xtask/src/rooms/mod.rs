//! Which crate may import which, and which folder of a crate: the lists in ARCHITECTURE.md against what is so.

mod folders;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::metadata::Metadata;
use crate::steps::Outcome;

const FILE: &str = "ARCHITECTURE.md";
const FENCE: &str = "```rooms";
/// How the list of a crate's folders begins, before the crate's name.
const FENCE_OF: &str = "```rooms of ";

/// Checks every edge between crates of the workspace, and between the folders of those that have a list.
pub fn check(root: &Path) -> Result<Outcome> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let mut outcome = check_crates(root, &text)?;
    for name in text.lines().filter_map(|line| line.trim_end().strip_prefix(FENCE_OF)) {
        let plan = Plan::parse(&text, &format!("{FENCE_OF}{name}"))?;
        let rooms = folders::read(&root.join("crates").join(name).join("src"))?;
        outcome = outcome.and(plan.compare(&rooms, &format!("folder of {name}")));
    }
    Ok(outcome)
}

fn check_crates(root: &Path, text: &str) -> Result<Outcome> {
    let plan = Plan::parse(text, FENCE)?;
    let metadata = Metadata::load(root, &["--no-deps"])?;
    let rooms = metadata.members().map(|package| {
        let ours = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
        let (tests, imports): (Vec<_>, Vec<_>) =
            ours.partition(|dependency| dependency.kind.as_deref() == Some("dev"));
        Room {
            name: room(&package.name),
            imports: imports.iter().map(|dependency| room(&dependency.name)).collect(),
            tests: tests.iter().map(|dependency| room(&dependency.name)).collect(),
        }
    });
    Ok(plan.compare(&rooms.collect::<Vec<_>>(), "crate"))
}

/// `mjolnir-map` is called `map` in the list.
fn room(package: &str) -> String {
    package.strip_prefix("mjolnir-").unwrap_or(package).to_owned()
}

/// A crate or folder as it is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Room {
    name: String,
    imports: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// A crate or folder as the list wants it.
#[derive(Default)]
struct Allowed {
    all: bool,
    imports: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// The list.
struct Plan {
    rooms: BTreeMap<String, Allowed>,
}

impl Plan {
    /// The list that begins with the line `fence`.
    fn parse(document: &str, fence: &str) -> Result<Plan> {
        let mut lines = document.lines().enumerate();
        if !lines.any(|(_, line)| line.trim_end() == fence) {
            bail!("{FILE} has no block that begins with {fence}; it lists what crates may import");
        }
        let mut rooms = BTreeMap::<String, Allowed>::new();
        for (index, line) in lines {
            let line = line.trim();
            let at = format!("{FILE}:{}", index + 1);
            if line == "```" {
                return Ok(Plan { rooms });
            }
            if line.is_empty() {
                continue;
            }
            let (head, tail) = line.split_once(':').with_context(|| {
                format!("{at}: {line:?} is not a room: write `name: import, import`")
            })?;
            let names = tail.split(',').map(str::trim).filter(|name| !name.is_empty());
            if let Some(name) = head.strip_suffix("(tests)") {
                let room = rooms.get_mut(name.trim()).with_context(|| {
                    format!("{at}: a room's tests come after its own line; there is none yet")
                })?;
                room.tests.extend(names.map(str::to_owned));
                continue;
            }
            let mut allowed = Allowed::default();
            for name in names {
                match name {
                    "all" => allowed.all = true,
                    _ if rooms.contains_key(name) => {
                        allowed.imports.insert(name.to_owned());
                    }
                    _ => bail!("{at}: {head} imports {name}, which is not above it in the list"),
                }
            }
            if allowed.all {
                allowed.imports.extend(rooms.keys().cloned());
            }
            if rooms.insert(head.to_owned(), allowed).is_some() {
                bail!("{at}: {head} is listed twice");
            }
        }
        bail!("{FILE}: the block that begins with {fence} has no end")
    }

    /// `noun` says what a room is.
    fn compare(&self, rooms: &[Room], noun: &str) -> Outcome {
        let (mut failures, mut warnings) = (Vec::new(), Vec::new());
        for room in rooms {
            let name = &room.name;
            let Some(allowed) = self.rooms.get(name) else {
                failures.push(format!("{name} is a {noun} that {FILE} does not list"));
                continue;
            };
            for import in room.imports.difference(&allowed.imports) {
                failures.push(format!("{name} imports {import}, which {FILE} does not allow"));
            }
            let for_tests: BTreeSet<_> = allowed.imports.union(&allowed.tests).cloned().collect();
            for import in room.tests.difference(&for_tests) {
                failures.push(format!(
                    "the tests of {name} import {import}, which {FILE} does not allow \
                     (`{name} (tests): {import}`)"
                ));
            }
            let unused = allowed.imports.difference(&room.imports).filter(|_| !allowed.all);
            for import in unused {
                warnings.push(format!("{name} may import {import}, and does not"));
            }
            for import in allowed.tests.difference(&room.tests) {
                warnings.push(format!("the tests of {name} may import {import}, and do not"));
            }
        }
        for name in self.rooms.keys().filter(|name| !rooms.iter().any(|room| room.name == **name)) {
            failures.push(format!("{FILE} lists {name}, and there is no such {noun}"));
        }
        Outcome::of(failures, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# House\n```rooms\nunits:\nmap: units\nengine: units, map\n\
                        engine (tests): lab\nlab: units, engine\ncli: all\n```\n";

    fn rooms(changes: &[(&str, &[&str], &[&str])]) -> Vec<Room> {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut rooms = BTreeMap::from([
            ("units", (&[][..], &[][..])),
            ("map", (&["units"][..], &[])),
            ("engine", (&["units", "map"], &["lab"])),
            ("lab", (&["units", "engine"], &["engine"])),
            ("cli", (&["lab"], &[])),
        ]);
        rooms.extend(changes.iter().map(|&(name, imports, tests)| (name, (imports, tests))));
        let make = |(name, (imports, tests)): (&str, (&[&str], &[&str]))| Room {
            name: name.to_owned(),
            imports: set(imports),
            tests: set(tests),
        };
        rooms.into_iter().map(make).collect()
    }

    fn compare(changes: &[(&str, &[&str], &[&str])]) -> Outcome {
        Plan::parse(LIST, FENCE).unwrap().compare(&rooms(changes), "crate")
    }

    #[test]
    fn a_house_as_listed_passes_without_warnings() {
        assert_eq!(compare(&[]), Outcome::pass());
    }

    #[test]
    fn an_edge_that_is_not_listed_fails() {
        let outcome = compare(&[("map", &["units", "engine"], &[])]);
        assert_eq!(outcome.failures, ["map imports engine, which ARCHITECTURE.md does not allow"]);
        assert_eq!(outcome.failed, 1);
        let outcome = compare(&[("map", &["units"], &["lab"])]);
        assert!(outcome.failures[0].contains("`map (tests): lab`"), "{outcome:?}");
    }

    #[test]
    fn a_listed_edge_that_is_not_used_is_a_warning() {
        let outcome = compare(&[("engine", &["map"], &[])]);
        assert!(outcome.passed());
        assert_eq!(
            outcome.warnings,
            [
                "engine may import units, and does not",
                "the tests of engine may import lab, and do not"
            ]
        );
    }

    #[test]
    fn crates_and_lines_without_each_other_fail() {
        assert!(compare(&[("attic", &[], &[])]).failures[0].contains("does not list"));
        let mut fewer = rooms(&[]);
        fewer.retain(|room| room.name != "map");
        let outcome = Plan::parse(LIST, FENCE).unwrap().compare(&fewer, "crate");
        assert_eq!(outcome.failures, ["ARCHITECTURE.md lists map, and there is no such crate"]);
    }

    #[test]
    fn a_list_that_is_no_order_is_refused_with_its_line() {
        for (list, complaint) in [
            ("", "no block"),
            ("```rooms\na:\n", "no end"),
            ("```rooms\na: b\nb:\n```", "ARCHITECTURE.md:2: a imports b, which is not above"),
            ("```rooms\na:\na:\n```", "listed twice"),
            ("```rooms\na\n```", "is not a room"),
            ("```rooms\na (tests): b\n```", "there is none yet"),
        ] {
            let error = Plan::parse(list, FENCE).err().expect(list).to_string();
            assert!(error.contains(complaint), "{list:?}: {error}");
        }
    }
}
