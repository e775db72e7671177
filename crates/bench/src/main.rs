//! `mjolnir-bench`: the benchmark table. Each row is measured beside its peer or limit, in the same
//! run, round by round in turn.
//!
//! **Imports** whatever it measures. **Leaves out** every decision about what a figure should be
//! but the targets of the table itself, which stand with the rows.
//!
//! Invariant: a row that cannot be measured here says so by name: it is skipped where a program is
//! missing, which is no failure, and has failed where anything else went wrong, which is one.

#![allow(clippy::disallowed_methods)] // It measures the real world, by its clock and processes.

mod chance;
mod clock;
mod direct;
mod heap;
mod load;
mod peer;
mod place;
mod report;
mod rows;
mod samples;
mod sparse;
mod table;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use report::Report;
use table::{Bench, Row, Scale};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Measures Mjolnir beside its peers and limits, and prints a line for each figure of the table.
///
/// Each figure is the median of several rounds, with the lowest and the highest; a ratio is taken
/// within each round, between two runs that follow one another.
#[derive(Parser)]
#[command(name = "cargo xtask bench", version)]
struct Arguments {
    /// Rows or groups to run (all by default); a name also stands for all that begin with it.
    names: Vec<String>,
    /// Run at the sizes at which the targets bind; without it, small: minutes for the whole table.
    #[arg(long)]
    full: bool,
    /// Sizes of no meaning, to see in seconds that every row runs.
    #[arg(long, hide = true, conflicts_with = "full")]
    tiny: bool,
    /// One JSON object a line: name, figure, unit, target, holds, and the spread.
    #[arg(long)]
    json: bool,
    /// Draw what rows tell over time (`pacing-real` does) as SVG files into this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Print what there is to measure, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Where to put files, in a folder of their own that is removed at the end; it decides which
    /// disk is measured [default: beside this program].
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Rounds for each row [default: 5, or 1 if tiny].
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    /// The `mjolnir` program to serve with [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Only rows that need no other program.
    #[arg(long, hide = true)]
    in_process: bool,
    /// Writes to a store as the recovery rows want it, then dies as by `kill -9`.
    #[arg(long, hide = true, value_names = ["STORE", "WRITES", "BLOCKS"], num_args = 3)]
    dirty_and_die: Option<Vec<String>>,
    /// Simulates a study, given as JSON, and prints what came of it.
    #[arg(long, hide = true, value_name = "STUDY")]
    simulate: Option<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every row that was asked for could be measured. Whether targets hold is in the lines,
/// not in the exit status: on a machine that does other work they may not.
fn run(arguments: Arguments) -> Result<bool> {
    if let Some(dirt) = &arguments.dirty_and_die {
        return rows::recovery::dirty_and_die(dirt);
    }
    if let Some(study) = &arguments.simulate {
        return rows::lab::simulate_here(study);
    }
    let wanted = choose(&arguments.names)?;
    if arguments.list {
        report::list(&wanted);
        return Ok(true);
    }
    let scale = match (arguments.full, arguments.tiny) {
        (true, _) => Scale::Full,
        (_, true) => Scale::Tiny,
        _ => Scale::Small,
    };
    let rounds = arguments.rounds.unwrap_or(if arguments.tiny { 1 } else { 5 }).max(1);
    let place = place::Place::new(arguments.dir.as_deref())?;
    let bench = Bench { scale, rounds, place, program: arguments.program };
    let mut report = Report::new(arguments.json, arguments.plots, scale, rounds)?;
    report.head(&bench);
    for row in wanted {
        if arguments.in_process && !row.needs.is_empty() {
            continue;
        }
        let missing: Vec<&str> =
            row.needs.iter().copied().filter(|program| !peer::is_there(program)).collect();
        if !missing.is_empty() {
            report.skip(row, &format!("needs {}", missing.join(", ")));
            continue;
        }
        report.begin(row);
        if let Err(error) = (row.run)(&bench, &mut report) {
            place::yield_to_the_end();
            report.fail(row, &error);
        }
        place::yield_to_the_end();
        bench.place.clear()?;
    }
    Ok(report.finish())
}

/// The rows that the names stand for.
fn choose(names: &[String]) -> Result<Vec<&'static Row>> {
    let matches = |row: &Row, name: &str| {
        row.name.starts_with(name) || row.lines.iter().any(|line| line.name.starts_with(name))
    };
    for name in names {
        if !rows::all().any(|row| matches(row, name)) {
            bail!("no row is called {name:?}; --list shows them all");
        }
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| matches(row, name));
    Ok(rows::all().filter(wanted).collect())
}
