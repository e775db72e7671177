//! Commands for those who work on Mjolnir: `cargo xtask --help`.
//!
//! **Imports** no crate of the workspace, so that it builds in seconds and can say what is wrong
//! with the others. **Leaves out** everything that ships.

#![allow(clippy::disallowed_methods)] // A tool of the outside world: it measures its own steps.

mod bench;
mod cargo;
mod guest;
mod house;
mod licences;
mod metadata;
mod record;
mod rooms;
mod steps;
mod test;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Commands for those who work on Mjolnir.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every check that a change must pass, and says at the end which failed.
    Test(test::Options),
    /// Runs the simulator (release build) with the given arguments: `cargo xtask sim --help`.
    #[command(disable_help_flag = true)]
    Sim {
        /// Arguments for the simulator.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measures the benchmark table (release build): `cargo xtask bench --help`.
    #[command(disable_help_flag = true)]
    Bench {
        /// Rows, and options of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Makes recordings of real programs anew, those that `recordings/` has; needs root. Without a
    /// name, lists them.
    Record {
        /// Which.
        names: Vec<String>,
        /// All of them.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Boots a virtual machine with zoned devices, and runs the tests that need some.
    Guest,
    /// Checks that crates import only what ARCHITECTURE.md lists.
    Rooms,
    /// Checks the licences of everything that is built, and that no banned crate is.
    Licences,
    /// Checks the rules of the house that neither rustfmt nor clippy knows.
    House,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Sim { arguments } => test::simulate(&arguments),
        Command::Bench { arguments } => bench::run(&arguments),
        Command::Record { names, all } => record::run(&names, all),
        Command::Guest => guest::run(&root()).map(|outcome| outcome.print().passed()),
        Command::Rooms => rooms::check(&root()).map(|outcome| outcome.print().passed()),
        Command::Licences => licences::check(&root()).map(|outcome| outcome.print().passed()),
        Command::House => house::check(&root()).map(|outcome| outcome.print().passed()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

/// Runs a check for its outcome alone: the shape of [`rooms::check`] and its siblings.
type Check = fn(&Path) -> Result<steps::Outcome>;
