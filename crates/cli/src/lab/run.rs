//! `lab run`.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mjolnir_experiment::{
    Changes, Mistake, Plan, Results, RunError, SHIPPED, Setting, find, report,
};
use serde_json::json;
use signal_hook::consts::SIGXFSZ;

use super::progress::Progress;
use super::{RunOptions, build};
use crate::complaints::complain;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;

/// What a shell says of who was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Runs experiments.
pub fn run(options: &RunOptions, json: bool) -> Result<(), Failure> {
    let plans = plans(options)?;
    let out = &options.out;
    output::make_folder(out)?;
    let stop = signals()?;
    let (version, jobs) = (build::version(), jobs(options.jobs));
    let (mut summaries, mut failed, mut empty) = (Vec::new(), 0, 0);
    let mut took_all = Duration::ZERO;
    for plan in &plans {
        let name = &plan.experiment.name;
        let folder = out.join(name);
        let progress = Progress::new(name);
        let setting = Setting {
            folder: &folder,
            report: Some(out),
            jobs,
            version: version.clone(),
            stop: &stop,
        };
        let results = plan.run(&setting, &|event| progress.watch(event));
        let took = progress.end();
        took_all += took;
        let results = results.map_err(|error| stopped(&error, out))?;
        results.write(&folder).map_err(Failure::new)?;
        for trouble in report::troubles(&results) {
            complain(&trouble.why);
            // Where runs failed, that is why.
            empty += usize::from(trouble.never && results.failures.is_empty());
        }
        failed += results.failures.len();
        let tally = report::tally(&results);
        let runs: usize = results.points.iter().map(|point| point.runs.len()).sum();
        if !json {
            let published = tally.to_string();
            let published = match published.is_empty() {
                true => published,
                false => format!("; published numbers: {published}"),
            };
            let took = output::time(took.as_nanos() as u64);
            let points = output::count(results.points.len() as u64, "point");
            output::print(&format!("{name}: {points} in {took}{published}\n"))?;
        }
        summaries.push(json!({
            "name": name,
            "results": folder.join("results.json"),
            "points": results.points.len(),
            "runs": runs,
            "failures": results.failures,
            "published": tally.compared,
            "published_met": tally.met,
            "published_not_comparable": tally.made_smaller,
            "seconds": took.as_secs_f64(),
        }));
    }
    let all = Results::read_all(out).map_err(Failure::new)?;
    report::write(out, &all).map_err(Failure::new)?;
    let page = out.join("report.html");
    if json {
        let seconds = took_all.as_secs_f64();
        output::print_json(
            &json!({ "experiments": summaries, "report": page, "seconds": seconds }),
        )?;
    } else {
        let all = output::count(plans.len() as u64, "experiment");
        let took = output::time(took_all.as_nanos() as u64);
        output::print(&format!("all: {all} in {took}\nreport: {}\n", page.display()))?;
    }
    match (failed, empty) {
        (0, 0) => Ok(()),
        (0, empty) => Err(Failure::new(format!(
            "{empty} of the figures and published numbers have nothing to show: name a swept key \
             or a number that runs have; the results are kept, and the same command draws them"
        ))),
        (failed, _) => {
            let runs = output::count(failed as u64, "run");
            Err(Failure::new(format!("{runs} failed; the report and results.json say why")))
        }
    }
}

/// Reads all experiments before any is run.
fn plans(options: &RunOptions) -> Result<Vec<Plan>, Failure> {
    let changes = Changes {
        quick: options.quick,
        seed: options.seed,
        seeds: options.seeds,
        set: options.set.clone(),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in &options.names {
        match name.as_str() {
            "all" => names.extend(SHIPPED.iter().map(|(name, _)| *name)),
            name => names.push(name),
        }
    }
    let refused = |mistake: Mistake| Failure::new(mistake.to_string());
    let mut plans = Vec::new();
    let mut taken = BTreeSet::new();
    for name in names {
        let (source, text) = find(name).map_err(refused)?;
        let plan =
            Plan::new(&source, &text, &changes, &mjolnir_machine::kinds()).map_err(refused)?;
        if !taken.insert(plan.experiment.name.clone()) {
            let name = &plan.experiment.name;
            return Err(Failure::new(format!(
                "{source}: experiment {name} is asked for twice: name it once, or rename one"
            )));
        }
        plans.push(plan);
    }
    Ok(plans)
}

/// How many runs at a time.
pub fn jobs(wanted: Option<u32>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    wanted.map_or_else(processors, |jobs| jobs as usize)
}

/// A sweep that ended early, for the user.
pub fn stopped(error: &RunError, out: &Path) -> Failure {
    match error {
        RunError::Stopped { kept, runs } => Failure::new(format!(
            "interrupted; {kept} of {runs} runs are kept in {}: give the same command again to go \
             on from there",
            out.display()
        ))
        .with_status(INTERRUPTED),
        RunError::Files(why) => Failure::new(why),
    }
}

/// The first SIGINT or SIGTERM sets the flag, a later one ends the process.
pub fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::new(format!("listening for signals: {error}"));
    let stop = interrupt::requested(|_| INTERRUPTED.into()).map_err(failed)?;
    // A limit on the size of files is an error of the write that meets it.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(failed)?;
    Ok(stop)
}
