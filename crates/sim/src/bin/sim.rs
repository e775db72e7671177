//! Runs seeds of the simulator: one that failed, or a soak.

use std::process::ExitCode;

use clap::Parser;
use mjolnir_sim::{RunSize, run_seed};

/// Run the deterministic simulator: the engine in virtual time, against faults and a model.
#[derive(Parser)]
#[command(name = "sim")]
struct Arguments {
    /// Run this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Make each seed some ten times longer.
    #[arg(long)]
    long: bool,
    /// Print every event.
    #[arg(long)]
    loud: bool,
    /// Run each seed twice and compare what happened, byte for byte.
    #[arg(long)]
    twice: bool,
    /// Go on after a seed that failed.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let size = if arguments.long { RunSize::Long } else { RunSize::Short };
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.from..arguments.from + arguments.seeds,
    };
    let (mut ran, mut failed) = (0, Vec::new());
    for seed in seeds {
        let report = run_seed(seed, size, arguments.loud);
        ran += 1;
        if arguments.seed.is_some() || report.failure.is_some() {
            println!("{report}");
        }
        if let Some(failure) = &report.failure {
            if arguments.seed.is_some() {
                failure.tail.iter().for_each(|line| println!("  {line}"));
            }
            failed.push(seed);
        } else if arguments.twice {
            let again = run_seed(seed, size, false);
            if (again.trace, again.events) != (report.trace, report.events) {
                println!(
                    "seed {seed} does not repeat: trace {:016x}, then {:016x}",
                    report.trace, again.trace
                );
                failed.push(seed);
            }
        }
        if !failed.is_empty() && !arguments.keep_going {
            break;
        }
    }
    println!(
        "{ran} seeds, {} failed{}",
        failed.len(),
        if failed.is_empty() { String::new() } else { format!(": {failed:?}") }
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
