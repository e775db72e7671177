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
    ("openssl-sys", "use rustls with its ring provider"),
    ("aws-lc-rs", "use rustls with its ring provider"),
    ("aws-lc-sys", "use rustls with its ring provider"),
];

/// Crates that the default build of `mjolnir` may not contain, though an optional feature may.
const BANNED_BY_DEFAULT: &[(&str, &str)] = &[
    ("tokio", "the executor is the world's own; put what needs tokio behind a feature"),
    ("rustls", "TLS is a feature"),
];

/// The package of the `mjolnir` program.
const PROGRAM: &str = "mjolnir-cli";

/// Checks licences and bans over everything that any feature on any platform builds.
pub fn check(root: &Path) -> Result<Outcome> {
    let everything = Metadata::load(root, &["--all-features"])?;
    let default = Metadata::load(root, &[])?;
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
    println!(
        "{} packages with all features, {} in the default build of mjolnir",
        everything.packages.len(),
        program.len()
    );
    Ok(Outcome::of(failures, warnings))
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
}
