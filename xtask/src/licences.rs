//! Which licences and which crates may be built in.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use spdx::{Expression, LicenseReq, ParseMode};

use crate::metadata::{Metadata, Package};
use crate::steps::Outcome;

/// What the workspace's own crates say.
const OURS: &str = "Apache-2.0 OR MIT";

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Exceptions that only widen what an allowed licence allows.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Crates that no crate of the workspace may build on, whatever its features.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "use the system's OpenSSL, behind the feature `tls`"),
    ("aws-lc-sys", "use the system's OpenSSL, behind the feature `tls`"),
    ("openssl-src", "use the system's OpenSSL: it gets its fixes without us"),
];

/// Crates that the default build of `mjolnir` may not contain, though an optional feature may.
const BANNED_BY_DEFAULT: &[(&str, &str)] = &[
    ("tokio", "the executor is the world's own; put what needs tokio behind a feature"),
    ("openssl-sys", "TLS is a feature"),
    ("rustls", "TLS is a feature"),
];

/// The package of the `mjolnir` program.
const PROGRAM: &str = "mjolnir-cli";

/// Checks licences and bans over everything that any feature on any platform builds.
pub fn check(root: &Path) -> Result<Outcome> {
    let everything = Metadata::load(root, &["--all-features"])?;
    let default = Metadata::load(root, &[])?;
    println!(
        "{} packages with all features, {} in the default build of mjolnir",
        everything.packages.len(),
        default.built_into(PROGRAM).len()
    );
    Ok(compare(&everything, &default))
}

fn compare(everything: &Metadata, default: &Metadata) -> Outcome {
    let (mut failures, mut warnings) = (Vec::new(), Vec::new());

    for package in everything.members() {
        if package.license.as_deref() != Some(OURS) {
            let Package { name, license, .. } = package;
            failures.push(format!("{name} states the licence {license:?}, not {OURS:?}"));
        }
    }
    for package in &everything.packages {
        if let Err(why) = judge(package.license.as_deref()) {
            failures.push(format!("{} {}: {why:#}", package.name, package.version));
        }
        if let Some((name, instead)) = BANNED.iter().find(|(name, _)| *name == package.name) {
            failures.push(format!("{name} is banned: {instead}"));
        }
    }
    let program = default.built_into(PROGRAM);
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for package in &program {
        versions.entry(&package.name).or_default().push(&package.version);
        let banned = BANNED_BY_DEFAULT.iter().find(|(name, _)| *name == package.name);
        if let Some((name, instead)) = banned {
            failures.push(format!("{name} is in the default build of mjolnir: {instead}"));
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        warnings.push(format!("mjolnir contains {name} more than once: {}", versions.join(", ")));
    }
    Outcome::of(failures, warnings)
}

/// Whether a package under this SPDX expression may be built in.
fn judge(license: Option<&str>) -> Result<()> {
    let text = license.context("states no licence; look at its files, and ask before adding it")?;
    // Old crates write "MIT/Apache-2.0" for "MIT OR Apache-2.0".
    let mode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };
    let expression = Expression::parse_mode(text, mode)
        .map_err(|error| anyhow::anyhow!("{text:?} is no SPDX expression: {}", error.reason))?;
    anyhow::ensure!(
        expression.evaluate(allowed),
        "the licence {text} is not allowed (allowed: {})",
        ALLOWED.join(", ")
    );
    Ok(())
}

fn allowed(required: &LicenseReq) -> bool {
    let licence = required.license.id().is_some_and(|id| ALLOWED.contains(&id.name));
    let addition = required.addition.as_ref();
    let exception = addition
        .is_none_or(|addition| addition.id().is_some_and(|id| EXCEPTIONS.contains(&id.name)));
    licence && exception
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_needs_one_allowed_licence_and_a_union_needs_all() {
        for allowed in [
            "MIT",
            "Apache-2.0 OR MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            judge(Some(allowed)).unwrap_or_else(|error| panic!("{allowed}: {error}"));
        }
        for refused in [
            "GPL-3.0-only",
            "MPL-2.0",
            "MIT AND GPL-2.0-or-later",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT WITH Classpath-exception-2.0",
            "LicenseRef-own",
            "Apache 2.0",
            "",
        ] {
            judge(Some(refused)).expect_err(refused);
        }
        judge(None).expect_err("no licence");
    }

    #[test]
    fn a_refusal_names_the_licence_and_what_is_allowed() {
        let error = judge(Some("MPL-2.0")).unwrap_err().to_string();
        assert!(error.contains("MPL-2.0") && error.contains("Apache-2.0"), "{error}");
    }

    /// A package: its name and version, its licence, and what it depends on with the kind.
    type Described<'a> = (&'a str, &'a str, &'a [(&'a str, Option<&'a str>)]);

    /// A workspace (what is called mjolnir) with packages from elsewhere.
    fn metadata(packages: &[Described<'_>]) -> Metadata {
        let describe = |&(id, license, _): &Described<'_>| {
            let (name, version) = id.split_once(' ').unwrap();
            json!({ "id": id, "name": name, "version": version, "license": license,
                    "dependencies": [], "targets": [] })
        };
        let node = |&(id, _, deps): &Described<'_>| {
            let edge = |&(pkg, kind): &(&str, Option<&str>)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
            json!({ "id": id, "deps": deps.iter().map(edge).collect::<Vec<_>>() })
        };
        let members = packages.iter().map(|(id, ..)| *id).filter(|id| id.starts_with("mjolnir"));
        let value = json!({
            "packages": packages.iter().map(describe).collect::<Vec<_>>(),
            "workspace_members": members.collect::<Vec<_>>(),
            "target_directory": "target",
            "resolve": { "nodes": packages.iter().map(node).collect::<Vec<_>>() },
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn bans_and_duplicates_are_found_where_they_are_built_and_only_there() {
        let found = metadata(&[
            ("mjolnir-cli 1", OURS, &[("mjolnir-nbd 1", None), ("tokio 1", Some("dev"))]),
            ("mjolnir-nbd 1", OURS, &[("bytes 1", None), ("cc 1", Some("build"))]),
            ("bytes 1", "MIT", &[]),
            ("bytes 2", "MIT", &[]),
            ("cc 1", "MIT", &[("bytes 2", None)]),
            ("tokio 1", "MIT", &[]),
        ]);
        let outcome = compare(&found, &found);
        assert_eq!(outcome.failures, [""; 0], "only its tests use tokio");
        assert_eq!(outcome.warnings, ["mjolnir contains bytes more than once: 1, 2"]);

        let found = metadata(&[
            ("mjolnir-cli 1", OURS, &[("mjolnir-nbd 1", None)]),
            ("mjolnir-nbd 1", "MIT", &[("tokio 1", None)]),
            ("tokio 1", "MIT", &[]),
            ("aws-lc-sys 1", "MIT", &[]),
            ("copyleft 1", "GPL-3.0-only", &[]),
        ]);
        let failures = compare(&found, &found).failures;
        assert_eq!(failures.len(), 4, "{failures:?}");
        for (failure, start) in failures.iter().zip([
            "mjolnir-nbd states the licence Some(\"MIT\")",
            "aws-lc-sys is banned",
            "copyleft 1: the licence GPL-3.0-only is not allowed",
            "tokio is in the default build",
        ]) {
            assert!(failure.starts_with(start), "{failure}");
        }
    }
}
