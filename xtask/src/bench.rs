//! `cargo xtask bench`: the benchmark table.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{cargo, root, tools};

/// Builds the programs in release, and runs the benchmark with these arguments. Whether every row
/// that could be measured was.
pub fn run(arguments: &[String]) -> Result<bool> {
    let root = &root();
    let asks_only =
        |argument: &String| ["--list", "--help", "-h", "--version"].contains(&&**argument);
    if !arguments.iter().any(asks_only) {
        // Peers come from packages; rows whose peer is missing are skipped by name.
        let outcome = tools::provide(true).print();
        outcome.skipped.iter().for_each(|what| eprintln!("# skipped: {what}"));
        if !build(root)? {
            return Ok(false);
        }
    }
    let mut command = cargo::command(root, &["run", "--quiet", "--release", "-p", "mjolnir-bench"]);
    command.arg("--").args(arguments);
    Ok(command.status().context("cannot run cargo")?.success())
}

/// The program that is served beside the peers, and the benchmark.
fn build(root: &Path) -> Result<bool> {
    let mut command = cargo::command(root, &["build", "--release", "-p", "mjolnir-cli"]);
    command.args(["-p", "mjolnir-bench", "--bins"]);
    Ok(command.status().context("cannot run cargo")?.success())
}
