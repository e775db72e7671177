//! A virtual machine with zoned devices, and the tests that run in it.
//!
//! `guest/boot.sh` makes the machine, and `guest/init.sh` is its first program. The processor is emulated, so this
//! needs no leave to use the hardware's own virtualisation.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo;
use crate::steps::Outcome;

/// What the script ends with where no such machine can be had.
const CANNOT: i32 = 77;

/// The command line that builds the test of the Device contract, and says where it lies.
const CONTRACT: &[&str] =
    &["--test", "zoned_device", "--no-run", "--message-format=json-render-diagnostics"];

/// `cargo xtask guest`: builds the program and boots the machine.
pub fn run(root: &Path) -> Result<Outcome> {
    let build =
        &["build", "--release", "-p", "mjolnir-cli", "--message-format=json-render-diagnostics"];
    let program = built(cargo::command(root, build), "mjolnir")?;
    let tests = cargo::command(root, &["test", "-p", "mjolnir-backends"]);
    boot(root, &program, tests, true)
}

/// Boots the machine with the program, and a test that `tests` builds. Installs what is missing, if it may.
pub fn boot(root: &Path, program: &Path, mut tests: Command, install: bool) -> Result<Outcome> {
    tests.args(CONTRACT);
    let contract = built(tests, "zoned_device")?;
    let script = root.join("xtask/guest/boot.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg(root.join("target/guest")).args([program, &contract]);
    command.env("MJOLNIR_INSTALL", if install { "1" } else { "" });
    let output = root.join("target/guest.txt");
    let said = std::fs::File::create(&output).context("cannot write target/guest.txt")?;
    println!("$ {command:?}");
    let status = command.stdout(said).status().context("cannot run bash")?;
    let said = std::fs::read_to_string(&output).unwrap_or_default();
    print!("{said}");
    Ok(match status.code() {
        Some(0) => {
            Outcome { passed: said.matches("guest: ok").count() as u64, ..Outcome::default() }
        }
        Some(CANNOT) => Outcome::skip(said.lines().last().unwrap_or("no reason was given")),
        _ => {
            let why = said.lines().find(|line| line.contains("guest: FAILED"));
            Outcome::fail(why.unwrap_or("the machine did not get to the end of its tests"))
        }
    })
}

/// The file that a cargo command line, which prints messages as JSON, built of a target.
fn built(command: Command, target: &str) -> Result<PathBuf> {
    let messages = cargo::output(command)?;
    let file = |message: Value| {
        (message["target"]["name"] == target)
            .then(|| message["executable"].as_str().map(PathBuf::from))?
    };
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages.filter_map(file).next_back().with_context(|| format!("cargo built no {target}"))
}
