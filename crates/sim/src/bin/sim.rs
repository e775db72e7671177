//! Runs seeds of the simulator: one that failed, or a soak.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mjolnir_engine::Engine;
use mjolnir_sim::{Report, RunSize, SimDisk, Swarm, run_swarm};
use mjolnir_vtime::SimRuntime;

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
    /// Run seeds until so much virtual time has passed in all.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["seed", "seeds"])]
    minutes: Option<u64>,
    /// One append in so many fails, and nothing else but the power.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    bad_places: Option<u64>,
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

impl Arguments {
    fn run(&self, seed: u64, loud: bool) -> Report {
        let size = if self.long { RunSize::Long } else { RunSize::Short };
        let mut swarm = Swarm::draw(seed, size);
        if let Some(one_in) = self.bad_places {
            swarm = swarm.with_bad_places(one_in);
        }
        let mut report = run_swarm::<Engine<SimDisk, SimRuntime>>(seed, swarm, loud, size);
        if let (Some(failure), Some(one_in)) = (&mut report.failure, self.bad_places) {
            failure.command += &format!(" --bad-places {one_in}");
        }
        report
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match (arguments.seed, arguments.minutes) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(_)) => arguments.from..u64::MAX,
        (None, None) => arguments.from..arguments.from + arguments.seeds,
    };
    let most = arguments.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let (mut ran, mut failed) = (0, Vec::new());
    let (mut time, mut operations, mut faults, mut cuts) = (Duration::ZERO, 0, 0, 0);
    for seed in seeds {
        if most.is_some_and(|most| time >= most) {
            break;
        }
        let report = arguments.run(seed, arguments.loud);
        ran += 1;
        time += Duration::from_nanos(report.ended_at.0);
        operations += report.tally.done.values().sum::<u64>();
        faults += report.tally.faults;
        cuts += report.tally.cuts;
        if arguments.seed.is_some() || report.failure.is_some() {
            println!("{report}");
        }
        if let Some(failure) = &report.failure {
            if arguments.seed.is_some() {
                failure.tail.iter().for_each(|line| println!("  {line}"));
            }
            failed.push(seed);
        } else if arguments.twice {
            let again = arguments.run(seed, false);
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
    println!(
        "{} s of virtual time, {operations} operations, {cuts} power cuts, {faults} faults",
        time.as_secs()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
