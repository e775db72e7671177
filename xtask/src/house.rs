//! Rules of the house that neither rustfmt nor clippy knows.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::steps::Outcome;

/// A file holds one concept; a longer one holds two.
const LINES_MAX: usize = 800;
/// Names that say nothing. A thing without a room needs a better name.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "misc", "stuff"];
/// What the head of a library says beside what it is.
const HEAD: &[&str] = &["**Imports**", "**Leaves out**"];
/// Marks of unfinished work. (In two parts, or this file would break its own rule.)
const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
];

/// Checks every Rust and Markdown file of the repository.
pub fn check(root: &Path) -> Result<Outcome> {
    let mut files = Vec::new();
    walk(root, &mut files)?;
    files.sort();
    let mut failures = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let complain = |why: String| failures.push(format!("{shown}: {why}"));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => rust(&shown, &text, complain),
            _ => links(path, &text, complain),
        }
    }
    println!("{} files", files.len());
    Ok(Outcome::of(failures, Vec::new()))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().with_context(|| format!("no {}", path.display()))?;
        if kind.is_dir() {
            if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                walk(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

fn rust(shown: &str, text: &str, mut complain: impl FnMut(String)) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complain(format!("{lines} lines; past {LINES_MAX}, look for the second concept in it"));
    }
    let drawer = Path::new(shown).iter().filter_map(|part| part.to_str());
    for part in drawer {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        if DRAWERS.contains(&name) {
            complain(format!("{name:?} says nothing; a thing without a room needs a better name"));
        }
    }
    if !text.starts_with("//!") {
        complain("has no head (`//!`) that says what it is".to_owned());
    }
    if shown.starts_with("crates/") && shown.ends_with("/src/lib.rs") {
        let is_head = |line: &&str| line.starts_with("//!");
        let head: String = text.lines().take_while(is_head).collect();
        for part in HEAD.iter().filter(|part| !head.contains(**part)) {
            complain(format!("the crate's head has no {part}"));
        }
    }
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(**mark)) {
            complain(format!("line {number}: {mark} is left in it"));
        }
        if line.trim_start().starts_with("#[ignore]") {
            complain(format!("line {number}: an ignored test states why: #[ignore = \"…\"]"));
        }
        let opts_out = line.contains("allow(clippy::disallowed_");
        if opts_out && line.starts_with("#") && !line.contains("//") {
            complain(format!("line {number}: a door to the outside world states why, behind `//`"));
        }
    }
}

/// Complains about links to files that do not exist.
fn links(path: &Path, text: &str, mut complain: impl FnMut(String)) {
    let folder = path.parent().unwrap_or(path);
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or("");
            let elsewhere = target.is_empty() || target.contains("://") || target.contains('@');
            if !elsewhere && !folder.join(target).exists() {
                complain(format!("links to {target}, which does not exist"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(shown: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        rust(shown, text, |why| found.push(why));
        found
    }

    #[test]
    fn a_file_of_the_house_passes() {
        let text = "//! Maps. **Imports** units.\n//! **Leaves out** I/O.\n\
                    #![allow(clippy::disallowed_methods)] // The outside world.\n";
        assert_eq!(complaints("crates/map/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn each_rule_is_named() {
        let unfinished = concat!("//! A.\nfn a() { todo", "!() }\n");
        for (shown, text, complaint) in [
            ("crates/map/src/utils.rs", "//! A.\n", "says nothing"),
            ("crates/map/tests/common/mod.rs", "//! A.\n", "says nothing"),
            ("crates/map/src/a.rs", "fn a() {}\n", "no head"),
            ("crates/map/src/lib.rs", "//! **Imports** units.\n", "no **Leaves out**"),
            ("crates/map/src/a.rs", unfinished, "line 2"),
            ("crates/map/src/a.rs", "//! A.\n    #[ignore]\n", "states why"),
            ("a.rs", "//! A.\n#![allow(clippy::disallowed_methods)]\n", "states why"),
            ("a.rs", &"//! A.\n".repeat(801), "801 lines"),
        ] {
            let found = complaints(shown, text);
            assert_eq!(found.len(), 1, "{shown}: {found:?}");
            assert!(found[0].contains(complaint), "{found:?}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let text = "[a](Cargo.toml) [b](src/main.rs#x) [c](https://a.b) [d](none.md)\n\
                    ```\n[e](example.md)\n```\n";
        let mut found = Vec::new();
        links(&manifest, text, |why| found.push(why));
        assert_eq!(found, ["links to none.md, which does not exist"]);
    }
}
