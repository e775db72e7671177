//! Where requests come from: jobs by rule, or a trace.

use std::io::Read;

use mjolnir_units::{BLOCK_SIZE, ByteSize};
use mjolnir_vtime::Chance;
use mjolnir_workload::Request;
use mjolnir_workload::fit::{Fitter, Replay, Target, VolumeRule};
use mjolnir_workload::synthetic::{Job, JobSpec, SpecError, Value, Workload, WorkloadSpec};
use mjolnir_workload::trace::{ReadOptions, Summary, TraceError, TraceReader};

use super::limits::Limit;
use super::spec::LoadSpec;
use crate::recordings;

/// What is asked of a drive.
pub(super) enum Source {
    /// Jobs, each with requests of its own.
    Jobs(Workload),
    /// A trace.
    Trace(Box<Trace>),
}

/// A trace, fitted to the drive.
pub(super) struct Trace {
    requests: Box<dyn Iterator<Item = Result<Request, String>>>,
    /// Requests to keep under way, where they have no times.
    pub queue_depth: Option<u32>,
    /// What fitting did, in sentences. Complete once the trace is over.
    report: std::rc::Rc<std::cell::RefCell<Vec<String>>>,
}

impl Iterator for Trace {
    type Item = Result<Request, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.requests.next()
    }
}

impl Trace {
    /// What fitting did so far.
    pub fn notes(&self) -> Vec<String> {
        self.report.borrow().clone()
    }
}

impl Source {
    /// The workload for a drive of so many bytes. Where there is a `limit`, jobs that say no end go on.
    pub fn new(spec: &LoadSpec, bytes: u64, seed: u64, limit: Limit) -> Result<Self, String> {
        match (&spec.synthetic, &spec.trace) {
            (Some(spec), None) => jobs(spec, bytes, seed, limit).map(Source::Jobs),
            (None, Some(path)) => Self::trace(spec, path, bytes, seed),
            (Some(_), Some(_)) => {
                Err("workload: say either `synthetic` or `trace`, not both".to_owned())
            }
            (None, None) => Err("workload: say `synthetic` (jobs in fio's words) or `trace` (the \
                                 path of one)"
                .to_owned()),
        }
    }

    /// The workload as it wears a drive in. Jobs have other draws than those that are measured, which
    /// would else overwrite the same blocks in the same order; what is popular with them is the same.
    pub fn wearing_in(spec: &LoadSpec, bytes: u64, seed: u64) -> Result<Self, String> {
        Ok(match Self::new(spec, bytes, seed, Limit::Writes { timed: false })? {
            Source::Jobs(workload) => Source::Jobs(workload.redrawn()),
            Source::Trace(trace) => Source::Trace(trace),
        })
    }

    fn trace(spec: &LoadSpec, path: &str, bytes: u64, seed: u64) -> Result<Self, String> {
        let options = if spec.skip_bad { ReadOptions::lenient() } else { ReadOptions::default() };
        let open = {
            let path = path.to_owned();
            move || -> Result<TraceReader<Box<dyn Read>>, String> {
                let file = recordings::open(&path)
                    .map_err(|error| format!("workload.trace: cannot open {path}: {error}"))?;
                let trace = TraceReader::open(file, &path, &options);
                trace.map_err(|error| format!("workload.trace: {error}"))
            }
        };
        let mut summary = Summary::new();
        let mut reader = open()?;
        while let Some(request) = next(&mut reader)? {
            summary.add(&request);
        }
        let target = Target { bytes: bytes / BLOCK_SIZE * BLOCK_SIZE, block_bytes: BLOCK_SIZE };
        let fitter = Fitter::new(&spec.fit, target, summary.volume_ends())
            .map_err(|error| format!("workload.fit: {error}"))?;
        let queue_depth = fitter.queue_depth();
        let report = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let (name, spec_start) = (path.to_owned(), spec.start_by_seed);
        let mut notes = vec![format!("the trace {name} has {} requests", summary.requests())];
        notes.extend(reader.report().lines());
        if matches!(spec.fit.volumes, VolumeRule::Concatenate) && summary.volumes() > 1 {
            notes.push(format!("its {} volumes became one", summary.volumes()));
        }
        let mut skipped = 0;
        if spec.start_by_seed && summary.requests() > 0 {
            skipped = Chance::new(seed).below(summary.requests());
            notes.push(format!("it is begun at request {}", skipped + 1));
        }
        let replay = Replay::new(move || open().map(Requests), fitter)?;
        let mut replay = replay.begun_after(skipped);
        let shared = report.clone();
        let (mut taken, mut begun) = (0u64, None);
        let of = summary.requests();
        let requests = std::iter::from_fn(move || {
            let mut request = replay.next();
            if let Some(Ok(request)) = &mut request {
                // The first one that is made comes at once where some were skipped.
                let begun = *begun.get_or_insert(match spec_start {
                    true => request.time.0,
                    false => 0,
                });
                request.time.0 -= begun;
            }
            if request.is_none() && taken == 0 {
                taken += 1;
                return Some(Err(nothing_left(&name, of, skipped)));
            }
            taken += 1;
            if request.is_none() || taken.is_multiple_of(4096) || taken == 1 {
                let mut lines = notes.clone();
                lines.extend(replay.report().lines());
                *shared.borrow_mut() = lines;
            }
            request.map(|outcome| outcome.map_err(|error| format!("{name}: {error}")))
        });
        Ok(Source::Trace(Box::new(Trace { requests: Box::new(requests), queue_depth, report })))
    }
}

/// Why a run of a trace of so many requests, of which so many are skipped, has none to make.
fn nothing_left(name: &str, requests: u64, skipped: u64) -> String {
    let (from, instead) = match skipped {
        0 => (String::new(), ""),
        _ => (
            format!(", begun at request {}", skipped + 1),
            ", more workload.fit.passes, or no workload.start_by_seed",
        ),
    };
    format!(
        "workload.fit: of the {requests} requests of {name}{from}, none is left to be made; take \
         another volume{instead}"
    )
}

/// Jobs for a drive of so many bytes. Where there is a `limit`, those that say no end go on.
///
/// # Errors
///
/// A sentence that begins with the key.
pub fn jobs(spec: &WorkloadSpec, bytes: u64, seed: u64, limit: Limit) -> Result<Workload, String> {
    let mut spec = spec.clone();
    let (by_writes, in_no_time) = match limit {
        Limit::Writes { timed } => (true, !timed),
        Limit::None | Limit::Requests => (false, false),
    };
    spec.seed = spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed);
    for (number, job) in (1..).zip(&mut spec.jobs) {
        let of_one_volume = check_one_volume(job, number);
        of_one_volume.map_err(|error| format!("workload.synthetic: {error}"))?;
        if job.size.is_none() {
            let offset = match &job.offset {
                None => 0,
                Some(Value::Number(number)) => *number,
                Some(Value::Text(text)) => {
                    text.parse::<ByteSize>()
                        .map_err(|error| format!("workload.synthetic: offset: {error}"))?
                        .0
                }
            };
            job.size = Some(Value::Number(bytes.saturating_sub(offset)));
        }
        // Where nothing takes time, requests that follow one another never come to its end.
        let stops = job.runtime.is_some() && (job.rate_iops.is_some() || !in_no_time);
        let endless = job.number_ios.is_none() && job.io_size.is_none() && !stops;
        if endless && limit != Limit::None {
            job.number_ios = Some(u64::MAX);
        }
    }
    let workload = Workload::new(&spec).map_err(|error| format!("workload.synthetic: {error}"))?;
    let goes_on = workload.jobs().iter().any(Job::goes_on);
    if by_writes && goes_on && !workload.jobs().iter().any(|job| job.goes_on() && job.writes()) {
        return Err(
            "workload.synthetic: no job that goes on writes, only blocks that are written end the \
             run, and those that end may not write enough; limit it by measure.requests or \
             measure.seconds, and have no precondition.workload"
                .to_owned(),
        );
    }
    for job in workload.jobs() {
        let (_, end) = job.range();
        if end > bytes {
            return Err(format!(
                "workload.synthetic: {} goes up to byte {end}, but the drive offers {} ({} \
                 bytes); give it a smaller size or none",
                job.name(),
                ByteSize(bytes),
                bytes
            ));
        }
    }
    Ok(workload)
}

/// Refuses what says nothing to a drive: it is one volume, and places blocks without hints.
fn check_one_volume(job: &JobSpec, number: usize) -> Result<(), SpecError> {
    let wrong = |field: &str, what: String| {
        let job = job.name.clone().unwrap_or_else(|| format!("job {number}"));
        Err(SpecError { job, field: field.to_owned(), what })
    };
    match (job.volume, job.stream) {
        (Some(volume), _) if volume > 0 => wrong(
            "volume",
            format!(
                "{volume}: the drive is one volume; leave it out, and set jobs apart by offset"
            ),
        ),
        (_, Some(stream)) => wrong(
            "stream",
            format!("{stream}: no placement policy of a drive looks at hints; leave it out"),
        ),
        _ => Ok(()),
    }
}

/// A trace's requests, with errors in words.
struct Requests(TraceReader<Box<dyn Read>>);

impl Iterator for Requests {
    type Item = Result<Request, String>;

    fn next(&mut self) -> Option<Self::Item> {
        next(&mut self.0).transpose()
    }
}

fn next(reader: &mut TraceReader<Box<dyn Read>>) -> Result<Option<Request>, String> {
    let request: Result<Option<Request>, TraceError> = reader.next_request();
    request.map_err(|error| format!("workload.trace: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wear_a_drive_in_with_other_draws_than_are_measured() {
        const LIMIT: Limit = Limit::Writes { timed: false };
        let spec: LoadSpec = toml::from_str("synthetic.job = [{ rw = \"randwrite\" }]").unwrap();
        let places = |source: Result<Source, String>| {
            let Ok(Source::Jobs(workload)) = source else { panic!("no jobs") };
            workload.generator(0).take(100).map(|request| request.offset).collect::<Vec<_>>()
        };
        let measured = |seed| places(Source::new(&spec, 1 << 30, seed, LIMIT));
        let before = |seed| places(Source::wearing_in(&spec, 1 << 30, seed));
        assert_eq!(before(1), before(1));
        for other in [measured(1), measured(2), before(2)] {
            assert_ne!(before(1), other);
        }
    }
}
