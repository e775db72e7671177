//! `advise`: which placement, victim policy and spare space suit a trace.

mod show;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use mjolnir_advise::{Advice, Ask, PrepareError, Prepared, STAGES, Shortlist};
use mjolnir_experiment::ledger::{remove_if_there, write_whole};
use mjolnir_experiment::report::Lead;
use mjolnir_experiment::{Plan, Results, RunError, Setting, Version, report};
use serde_json::json;

use crate::arguments::policy::{PLACEMENT, Policies, VICTIM};
use crate::failure::Failure;
use crate::lab::{INTERRUPTED, Progress, build, jobs, signals, stopped};
use crate::output;
use crate::trace::{Reading, refused};

const EXAMPLES: &str = "\
Examples:
  mjolnir advise web.mjtrace --quick               a first answer
  mjolnir advise disk.vscsi --out advice           with results, and a report on them
  mjolnir advise msr.csv --volume src1,0 --spare 10%,20%

How it finds out:
  1. The trace's writes and trims go through a log of segments with every placement policy, several
     victim policies and spare sizes, and with policies that know the future, as a bound.
  2. The best few and the default are repeated from other places of the trace.
  3. The best and the default run on the engine that ships, on a simulated drive, in virtual time,
     from several places of the trace, once the trace itself has worn the drive in.
A choice is advised only if it wins in both by more than figures scatter from place to place.
A short trace is looped, a very long one is cut, and a drive of just the trace's data stands for the
store; what was done is printed. A recording of one's own comes from `mjolnir record start`.

Exit status: 0 with advice; 1 if there is none, or something was wrong; 2 if the command line is
wrong; 130 if it was interrupted.";

/// What to advise on, and how thoroughly.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseOptions {
    /// The trace, of any format that `mjolnir trace info` knows, or a shipped recording by its name
    /// (sqlite, for one); - for standard input.
    pub trace: PathBuf,
    /// Take this volume of the trace alone [default: all, one after the other].
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Placement policies to try besides the default, with commas between, as in
    /// `sepbit,dac:classes=4` [default: all].
    #[arg(long, value_name = "POLICY", value_parser = PLACEMENT.list())]
    pub placement: Vec<Policies>,
    /// Victim policies to try besides the default, with commas between [default: several].
    #[arg(long, value_name = "POLICY", value_parser = VICTIM.list())]
    pub victim: Vec<Policies>,
    /// Shares of the store to keep free, with commas between: 0.2 or 20% [default: several].
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = spare)]
    pub spare: Vec<f64>,
    /// Erases that each block of flash withstands, to reckon its life in years.
    #[arg(long, value_name = "CYCLES", default_value_t = 3000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub endurance: u64,
    /// Try less, on less of the trace: seconds instead of minutes.
    #[arg(long)]
    pub quick: bool,
    /// How many runs at a time [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// The seed; the same one gives the same advice.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Keep the results here, and a report on them.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
}

/// A share: 0.2 or 20%.
fn spare(text: &str) -> Result<f64, String> {
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse::<f64>(),
    };
    match number {
        Ok(share) if (0.02..=0.9).contains(&share) => Ok(share),
        _ => Err("write a share from 0.02 to 0.9, or from 2% to 90%".to_owned()),
    }
}

/// The trace as it is replayed, in the folder of the results.
const PREPARED: &str = "advise-trace.mjtrace";
/// The advice itself, there.
const ADVICE: &str = "advice.json";

/// Gives advice.
pub fn run(options: &AdviseOptions, json: bool) -> Result<(), Failure> {
    let temporary = match &options.out {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Failure::new(format!("making a temporary folder: {error}; name one with --out"))
        })?),
    };
    let mut reader = options.reading.open(&options.trace)?;
    let out = options.out.as_deref().or(temporary.as_ref().map(|folder| folder.path()));
    let Some(out) = out else { return Err(Failure::new("there is no folder for results")) };
    let trace = out.join(PREPARED);
    let name = trace.to_str().ok_or_else(|| {
        Failure::new(format!("{}: the folder's name must be UTF-8", out.display()))
    })?;
    let mut spares = options.spare.clone();
    spares.sort_by(f64::total_cmp);
    spares.dedup();
    let once = |lists: &[Policies]| {
        let mut names: Vec<String> = lists.iter().flat_map(|list| list.0.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let ask = Ask {
        trace: name.to_owned(),
        source: trace_name(options),
        placements: once(&options.placement),
        victims: once(&options.victim),
        spares,
        seed: options.seed,
        quick: options.quick,
    };
    let prepared = Prepared::new(&mut reader, options.volume.as_deref(), ask.limits());
    let prepared = prepared.map_err(|error| match error {
        PrepareError::Trace(error) => refused(error),
        PrepareError::Useless(why) => Failure::new(why),
    })?;
    output::make_folder(out)?;
    refuse_to_overwrite(&trace, &options.trace)?;
    forget(out)?;
    keep(&prepared, &trace)?;
    let stages = Stages {
        out,
        jobs: jobs(options.jobs),
        version: build::version(),
        stop: signals()?,
        kept: options.out.is_some(),
    };
    let refused = |mistake: mjolnir_experiment::Mistake| Failure::new(mistake.to_string());
    let grid = stages.run(&ask.grid(&prepared).map_err(refused)?)?;
    let Some(list) = Shortlist::of(&grid) else {
        return Err(Failure::new(
            "no policy found room to reclaim in at any spare size: try larger ones with --spare",
        ));
    };
    let trial = stages.run(&ask.trial(&prepared, &list).map_err(refused)?)?;
    let mut advice =
        Advice::of(&prepared, &grid, &list, &trial, options.endurance).map_err(Failure::new)?;
    match ask.lab(&prepared, advice.spare, &advice.best.choice) {
        Ok(plan) => advice.add_lab(&stages.run(&plan)?),
        Err(mistake) => advice.notes.push(format!("the engine did not run: {mistake}")),
    }
    let mut rules = reader.report().oddities();
    rules.extend(prepared.notes.iter().cloned());
    rules.extend(ask.rules(&prepared));
    let trace = trace_name(options);
    let page = options.out.as_ref().map(|out| out.join("report.html"));
    if let Some(page) = &page {
        let all = Results::read_all(out).map_err(Failure::new)?;
        show::lead(&trace, &rules, &advice).keep(out).map_err(Failure::new)?;
        report::write(out, &all).map_err(Failure::new)?;
        let whole = json!({ "trace": trace, "rules": rules, "advice": advice, "report": page });
        let text = format!("{whole:#}\n");
        let path = out.join(ADVICE);
        write_whole(&path, text.as_bytes()).map_err(Failure::new)?;
    }
    if json {
        let whole = json!({ "trace": trace, "rules": rules, "advice": advice, "report": page });
        return output::print_json(&whole);
    }
    output::print(&show::text(&trace, &rules, &advice, page.as_deref()))
}

/// What the trace is called.
fn trace_name(options: &AdviseOptions) -> String {
    match options.trace.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => options.trace.display().to_string(),
    }
}

/// Removes the advice that is in the folder, until there is other. What its runs noted down stays, for
/// those of the same trace.
fn forget(out: &Path) -> Result<(), Failure> {
    Lead::remove(out).map_err(Failure::new)?;
    for stage in STAGES {
        Results::remove(&out.join(stage)).map_err(Failure::new)?;
    }
    remove_if_there(&out.join(ADVICE)).map_err(Failure::new)
}

/// The trace that was made ready is not written over the one that it was made of.
fn refuse_to_overwrite(path: &Path, source: &Path) -> Result<(), Failure> {
    let identity = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    if let Some(there) = identity(path)
        && identity(source) == Some(there)
    {
        return Err(Failure::new(format!(
            "{} would be written over; move it, or name another folder with --out",
            path.display()
        )));
    }
    Ok(())
}

/// Writes the trace that was made ready to where the runs read it.
fn keep(prepared: &Prepared, path: &Path) -> Result<(), Failure> {
    let bytes = prepared
        .write(Vec::new())
        .map_err(|error| Failure::new(format!("writing {}: {error}", path.display())))?;
    write_whole(path, &bytes).map_err(Failure::new)
}

/// What runs have in common.
struct Stages<'a> {
    out: &'a Path,
    jobs: usize,
    version: Version,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    /// Whether the folder stays.
    kept: bool,
}

impl Stages<'_> {
    fn run(&self, plan: &Plan) -> Result<Results, Failure> {
        let name = &plan.experiment.name;
        let folder = self.out.join(name);
        let progress = Progress::new(&plan.experiment.title);
        let version = self.version.clone();
        let setting = Setting {
            folder: &folder,
            report: Some(self.out),
            jobs: self.jobs,
            version,
            stop: &self.stop,
        };
        let results = plan.run(&setting, &|event| progress.watch(event));
        progress.end();
        let results = results.map_err(|error| match error {
            RunError::Stopped { .. } if !self.kept => {
                Failure::new("interrupted; with --out, what was done is kept")
                    .with_status(INTERRUPTED)
            }
            error => stopped(&error, self.out),
        })?;
        results.write(&folder).map_err(Failure::new)?;
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_was_there_before_does_not_pass_for_that_to_come() {
        let folder = tempfile::tempdir().unwrap();
        forget(folder.path()).unwrap();
        let files = [ADVICE, "advise-lab/results.json", "advise-trial/summary.csv", "mine.json"];
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
        forget(folder.path()).unwrap();
        let left: Vec<_> =
            files.into_iter().filter(|file| folder.path().join(file).exists()).collect();
        assert_eq!(left, ["mine.json"]);
    }

    #[test]
    fn spare_is_a_share_or_a_percentage() {
        assert_eq!(spare("0.2"), Ok(0.2));
        assert_eq!(spare("20%"), Ok(0.2));
        for wrong in ["20", "0", "100%", "-1", "a", "", "NaN"] {
            assert!(spare(wrong).is_err(), "{wrong}");
        }
    }
}
