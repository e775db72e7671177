//! `cargo xtask bench`: the benchmark table.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, root, test, tools};

/// The program that is served beside the peers, and the benchmark. Built together: built apart, what
/// they share would be built twice with different features.
const PROGRAMS: &[&str] =
    &["build", "--release", "-p", "mjolnir-cli", "-p", "mjolnir-bench", "--bins"];

/// Builds the programs in release, and runs the benchmark with these arguments. Whether every row
/// that could be measured was.
pub fn run(arguments: &[String]) -> Result<bool> {
    let root = &root();
    let asks = |argument: &String| ["--list", "--help", "-h", "--version"].contains(&&**argument);
    if !arguments.iter().any(asks) {
        // Peers come from packages; rows whose peer is missing are skipped by name.
        tools::provide(true).skipped.iter().for_each(|what| eprintln!("# skipped: {what}"));
    }
    // Only the benchmark writes to standard output.
    let mut build = cargo::command(root, PROGRAMS);
    let built = build.stdout(std::io::stderr()).status().context("cannot run cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let mut command = Command::new(test::release_folder(root)?.join("mjolnir-bench"));
    Ok(command.args(arguments).status().context("cannot run the benchmark")?.success())
}
