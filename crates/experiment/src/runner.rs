//! Runs an experiment's points, several at a time, and keeps each result as soon as it is there.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};

use super::ledger::{Identity, Inputs, Ledger};
use super::results::{Failed, Results, Run};
use super::{Kind, Outcome, Plan, Point, Version, report};

/// How to run.
pub struct Setting<'a> {
    /// The experiment's own folder; its runs go to `points` within.
    pub folder: &'a Path,
    /// The folder whose report tells of it, if there is one: it goes as soon as anything is run anew.
    pub report: Option<&'a Path>,
    /// How many runs at a time; at least 1.
    pub jobs: usize,
    /// The program.
    pub version: Version,
    /// Set from elsewhere to end early.
    pub stop: &'a AtomicBool,
}

/// What happens while an experiment runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many runs are to be made; so many of them are there already.
    Begun {
        /// All of them.
        runs: usize,
        /// Those found in the ledger.
        kept: usize,
    },
    /// The share of all runs that is done, 0 to 1, those found in the ledger included.
    Progress(f64),
    /// A run ended well.
    Done(&'a Point),
    /// A run failed.
    Failed(&'a Failed),
}

/// Why an experiment has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It was told to stop.
    #[error("stopped with {kept} of {runs} runs done")]
    Stopped {
        /// Runs that are kept.
        kept: usize,
        /// All of them.
        runs: usize,
    },
    /// Files cannot be read or written.
    #[error("{0}")]
    Files(String),
}

struct Job<'a> {
    point: usize,
    seed: u64,
    kind: &'static dyn Kind,
    of: &'a Point,
    identity: Identity,
}

impl Job<'_> {
    /// What was found before. A run that leaves files is made again: they may be gone.
    fn kept(&self, ledger: &Ledger) -> Option<Outcome> {
        let outputs = self.kind.outputs(&self.of.configuration);
        if outputs.is_empty() { ledger.find(&self.identity) } else { None }
    }
}

impl Plan {
    /// Runs what is not in the ledger yet.
    ///
    /// The results depend on the plan and the version alone: not on the number of jobs, and not on
    /// what was in the ledger.
    ///
    /// # Errors
    ///
    /// It was stopped, or files failed. A run that fails is among the results.
    pub fn run(
        &self,
        setting: &Setting<'_>,
        watch: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Results, RunError> {
        let ledger = Ledger::open(&setting.folder.join("points")).map_err(RunError::Files)?;
        let jobs = self.jobs(&setting.version)?;
        let mut outcomes: Vec<Option<Result<Outcome, String>>> =
            jobs.iter().map(|job| job.kept(&ledger).map(Ok)).collect();
        let kept = outcomes.iter().flatten().count();
        let runs = jobs.len();
        watch(Event::Begun { runs, kept });
        let mut missing: Vec<usize> = (0..runs).filter(|&job| outcomes[job].is_none()).collect();
        // What goes by the clock comes last, when nothing runs beside it.
        missing.sort_by_key(|&job| jobs[job].kind.by_clock());
        let virtual_runs = missing.partition_point(|&job| !jobs[job].kind.by_clock());
        if !missing.is_empty() {
            Results::remove(setting.folder).map_err(RunError::Files)?;
            if let Some(folder) = setting.report {
                report::remove(folder).map_err(RunError::Files)?;
            }
        }
        let work = Work {
            ledger: &ledger,
            next: AtomicUsize::new(0),
            trouble: Mutex::new(None),
            progress: Mutex::new(vec![0.0; missing.len()]),
            done: Mutex::new(Vec::new()),
            setting,
            watch,
            runs,
            kept,
        };
        hush_panics();
        std::thread::scope(|scope| {
            for _ in 0..setting.jobs.clamp(1, virtual_runs.max(1)) {
                scope.spawn(|| work.labour(&jobs, &missing[..virtual_runs]));
            }
        });
        work.next.store(virtual_runs, Relaxed);
        work.labour(&jobs, &missing);
        if let Some(trouble) = lock(&work.trouble).take() {
            return Err(RunError::Files(trouble));
        }
        let done = std::mem::take(&mut *lock(&work.done));
        let kept = kept + done.iter().filter(|(_, outcome)| outcome.is_ok()).count();
        for (job, outcome) in done {
            outcomes[job] = Some(outcome);
        }
        if outcomes.iter().any(Option::is_none) {
            return Err(RunError::Stopped { kept, runs });
        }
        let runs = jobs.iter().zip(outcomes).map(|(job, outcome)| Run {
            point: job.point,
            seed: job.seed,
            outcome: outcome.expect("all are there"),
        });
        Ok(Results::new(self, &setting.version, runs.collect()))
    }

    fn jobs(&self, version: &Version) -> Result<Vec<Job<'_>>, RunError> {
        let (mut jobs, mut known) = (Vec::new(), Inputs::default());
        for (number, point) in self.points.iter().enumerate() {
            let kind = self.kinds.by_name(&point.kind).expect("a plan's kinds are known");
            let inputs = kind.inputs(&point.configuration);
            let inputs = inputs.iter().map(|path| known.of(path)).collect::<Result<Vec<_>, _>>();
            let inputs = inputs.map_err(RunError::Files)?;
            let configuration = serde_json::to_value(&point.configuration)
                .expect("configurations are checked for what JSON has no word for");
            for &seed in &self.seeds {
                let identity = Identity {
                    kind: point.kind.clone(),
                    configuration: configuration.clone(),
                    seed,
                    inputs: inputs.clone(),
                    version: version.clone(),
                };
                jobs.push(Job { point: number, seed, kind, of: point, identity });
            }
        }
        Ok(jobs)
    }
}

/// What the threads share.
struct Work<'a> {
    ledger: &'a Ledger,
    next: AtomicUsize,
    /// The first failure to write.
    trouble: Mutex<Option<String>>,
    /// The share done of each run that was missing.
    progress: Mutex<Vec<f64>>,
    done: Mutex<Vec<(usize, Result<Outcome, String>)>>,
    setting: &'a Setting<'a>,
    watch: &'a (dyn Fn(Event<'_>) + Sync),
    runs: usize,
    kept: usize,
}

/// A thread that panicked while it held the lock left nothing half-done: all that is done under
/// locks here is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work<'_> {
    fn goes_on(&self) -> bool {
        !self.setting.stop.load(Relaxed) && lock(&self.trouble).is_none()
    }

    fn tell(&self, index: usize, share: f64) {
        let sum: f64 = {
            let mut progress = lock(&self.progress);
            progress[index] = share.clamp(progress[index], 1.0);
            progress.iter().sum()
        };
        (self.watch)(Event::Progress((self.kept as f64 + sum) / self.runs as f64));
    }

    fn labour(&self, jobs: &[Job<'_>], missing: &[usize]) {
        while self.goes_on() {
            let index = self.next.fetch_add(1, Relaxed);
            let Some(&number) = missing.get(index) else { return };
            let job = &jobs[number];
            let mut progress = |share: f64| {
                self.tell(index, share);
                self.goes_on()
            };
            let outcome = guarded(|| job.kind.run(&job.of.configuration, job.seed, &mut progress));
            if outcome.is_err() && !self.goes_on() {
                return;
            }
            let outcome = outcome.map(whole);
            match &outcome {
                Ok(outcome) => {
                    if let Err(why) = self.ledger.keep(&job.identity, outcome) {
                        lock(&self.trouble).get_or_insert(why);
                        return;
                    }
                    (self.watch)(Event::Done(job.of));
                }
                Err(why) => {
                    let failed = Failed::new(job.of, job.seed, why);
                    (self.watch)(Event::Failed(&failed));
                }
            }
            self.tell(index, 1.0);
            lock(&self.done).push((number, outcome));
        }
    }
}

/// Leaves out what JSON has no word for, and says so.
fn whole(mut outcome: Outcome) -> Outcome {
    outcome.numbers.retain(|name, number| {
        if !number.is_finite() {
            outcome.notes.push(format!("{name} is left out: it is {number}"));
        }
        number.is_finite()
    });
    for (name, series) in &mut outcome.series {
        let before = series.points.len();
        series.points.retain(|(x, y)| x.is_finite() && y.is_finite());
        if series.points.len() < before {
            let left_out = before - series.points.len();
            outcome.notes.push(format!("{left_out} points of {name} are left out: not finite"));
        }
    }
    outcome
}

thread_local! {
    /// Where and why this thread's run panicked; `None` outside of runs.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics within runs are told as failures of theirs, and not printed besides.
fn hush_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let in_run = PANIC.with_borrow_mut(|slot| {
                let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
                let said = slot.is_some();
                if said {
                    *slot = Some(format!("{}{place}", words(info.payload())));
                }
                said
            });
            if !in_run {
                before(info);
            }
        }));
    });
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// Runs it; a panic is a failure.
fn guarded(run: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
    PANIC.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    let said = PANIC.take().unwrap_or_default();
    outcome.unwrap_or_else(|_| {
        let one_line = said.lines().collect::<Vec<_>>().join(" ");
        Err(format!("the run panicked, which is a fault of this program: {one_line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_place() {
        hush_panics();
        let failed = guarded(|| panic!("no such\nblock")).unwrap_err();
        assert!(failed.contains("no such block at ") && failed.contains("runner.rs"), "{failed}");
        assert_eq!(guarded(|| Err("so".to_owned())), Err("so".to_owned()));
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_told() {
        let mut outcome = Outcome::default();
        outcome.numbers.insert("good".to_owned(), 1.0);
        outcome.numbers.insert("bad".to_owned(), f64::NAN);
        let outcome = whole(outcome);
        assert_eq!(outcome.numbers.len(), 1);
        assert_eq!(outcome.notes, ["bad is left out: it is NaN"]);
    }
}
