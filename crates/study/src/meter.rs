//! What a run is measured by, request by request.

use std::path::Path;

use mjolnir_experiment::Series;
use mjolnir_experiment::ledger::Unfinished;
use mjolnir_flash::controller::Latencies;
use mjolnir_workload::Op;

/// Latencies, bandwidth, pauses.
pub struct Meter {
    begun_ns: u64,
    latencies: Vec<Latencies>,
    /// Requests completed.
    pub requests: u64,
    /// Bytes of each operation.
    pub bytes: [u64; Op::ALL.len()],
    /// Completions by interval of time: bytes read and written.
    intervals: Vec<(u64, u64)>,
    interval_ns: u64,
    points_max: usize,
    last_completion_ns: u64,
    longest_pause_ns: u64,
    longest_pause_at_ns: u64,
    /// Those of at least [`PAUSE_NS`].
    pauses: Latencies,
    log: Option<Unfinished>,
    log_failed: Option<String>,
}

/// The first width of an interval; it doubles as the run gets longer.
const INTERVAL_NS: u64 = 1_000_000;
/// From which length on a pause counts as one.
pub(super) const PAUSE_NS: u64 = 1_000_000;

impl Meter {
    /// Begins to measure at an instant. Courses have at most `points` points. `log` is the path of
    /// a log of all requests.
    ///
    /// # Errors
    ///
    /// A sentence: the log cannot be written.
    pub fn new(begun_ns: u64, points: usize, log: Option<&str>) -> Result<Self, String> {
        let log = match log {
            None => None,
            Some(path) => {
                let begun = Unfinished::new(Path::new(path)).and_then(|mut log| {
                    log.write(b"arrival_ns,completion_ns,op,offset_bytes,length_bytes\n")?;
                    Ok(log)
                });
                Some(begun.map_err(|why| format!("measure.log: {why}"))?)
            }
        };
        Ok(Meter {
            begun_ns,
            latencies: vec![Latencies::default(); Op::ALL.len()],
            requests: 0,
            bytes: [0; Op::ALL.len()],
            intervals: Vec::new(),
            interval_ns: INTERVAL_NS,
            points_max: points.max(2),
            last_completion_ns: begun_ns,
            longest_pause_ns: 0,
            longest_pause_at_ns: begun_ns,
            pauses: Latencies::default(),
            log,
            log_failed: None,
        })
    }

    /// A request that arrived and was completed, no earlier than those before it.
    pub fn completed(&mut self, arrival_ns: u64, done_ns: u64, op: Op, offset: u64, length: u64) {
        self.requests += 1;
        self.bytes[op.index()] += length;
        self.latencies[op.index()].add(done_ns.saturating_sub(arrival_ns));
        // As far as this request knows: others may have waited before it arrived.
        let since = self.last_completion_ns.max(arrival_ns);
        let pause = done_ns.saturating_sub(since);
        if pause > self.longest_pause_ns {
            (self.longest_pause_ns, self.longest_pause_at_ns) = (pause, since - self.begun_ns);
        }
        if pause >= PAUSE_NS {
            self.pauses.add(pause);
        }
        self.last_completion_ns = self.last_completion_ns.max(done_ns);
        if matches!(op, Op::Read | Op::Write) {
            let mut at = ((done_ns - self.begun_ns) / self.interval_ns) as usize;
            while at >= 2 * self.points_max {
                self.widen();
                at /= 2;
            }
            if self.intervals.len() <= at {
                self.intervals.resize(at + 1, (0, 0));
            }
            let interval = &mut self.intervals[at];
            *(if op == Op::Read { &mut interval.0 } else { &mut interval.1 }) += length;
        }
        if let Some(log) = &mut self.log {
            let (from, to) = (arrival_ns - self.begun_ns, done_ns - self.begun_ns);
            let line = format!("{from},{to},{op},{offset},{length}\n");
            if let Err(why) = log.write(line.as_bytes()) {
                self.log_failed = Some(format!("measure.log: {why}"));
                self.log = None;
            }
        }
    }

    /// Joins each two intervals.
    fn widen(&mut self) {
        self.interval_ns *= 2;
        let joined = self.intervals.chunks(2).map(|pair| {
            let (a, b) = (pair[0], pair.get(1).copied().unwrap_or((0, 0)));
            (a.0 + b.0, a.1 + b.1)
        });
        self.intervals = joined.collect();
    }

    /// Latencies of an operation.
    pub fn latencies(&self, op: Op) -> &Latencies {
        &self.latencies[op.index()]
    }

    /// The longest time for which a request waited and none completed, and when it began.
    pub fn longest_pause_ns(&self) -> (u64, u64) {
        (self.longest_pause_ns, self.longest_pause_at_ns)
    }

    /// The times of at least 1 ms for which a request waited and none completed.
    pub fn pauses(&self) -> &Latencies {
        &self.pauses
    }

    /// Nanoseconds from the beginning to the last completion.
    pub fn elapsed_ns(&self) -> u64 {
        self.last_completion_ns - self.begun_ns
    }

    /// Bandwidth over time, of reads and of writes.
    pub fn bandwidth(&self) -> [Series; 2] {
        let intervals = self.whole_intervals();
        let course = |y: &str, part: fn(&(u64, u64)) -> u64| Series {
            x: "time_s".into(),
            y: y.into(),
            points: intervals
                .iter()
                .map(|(from_ns, to_ns, bytes)| {
                    let mib = part(bytes) as f64 / f64::from(1 << 20);
                    (*from_ns as f64 / 1e9, mib * 1e9 / (to_ns - from_ns) as f64)
                })
                .collect(),
        };
        [course("read_mib_per_s", |i| i.0), course("write_mib_per_s", |i| i.1)]
    }

    /// When each interval began and ended, and its bytes. What is left at the end counts to the one before
    /// it if it is less than half of one.
    fn whole_intervals(&self) -> Vec<(u64, u64, (u64, u64))> {
        let width = self.interval_ns;
        let bounds = (0..).map(|at: u64| (at * width, (at + 1) * width));
        let all = bounds.zip(&self.intervals).map(|((from, to), bytes)| (from, to, *bytes));
        let mut all: Vec<_> = all.collect();
        let elapsed = self.elapsed_ns();
        match &mut all[..] {
            [.., before, last] if elapsed < last.0 + width / 2 => {
                before.1 = elapsed.max(last.0);
                before.2 = (before.2.0 + last.2.0, before.2.1 + last.2.1);
                all.pop();
            }
            [.., last] if elapsed > last.0 => last.1 = last.1.min(elapsed),
            _ => {}
        }
        all
    }

    /// Ends the log of requests, if one is kept: only now it is there.
    ///
    /// # Errors
    ///
    /// A sentence: it could not be written.
    pub fn end_log(&mut self) -> Result<(), String> {
        if let Some(failed) = self.log_failed.take() {
            return Err(failed);
        }
        match self.log.take() {
            Some(log) => log.finish().map_err(|why| format!("measure.log: {why}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_a_run_that_did_not_end_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let begun = || Meter::new(0, 10, path.to_str()).unwrap();
        drop(begun());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut meter = begun();
        meter.completed(1, 5, Op::Write, 0, 4096);
        assert!(!path.exists());
        meter.end_log().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(1), Some("1,5,write,0,4096"));
    }

    #[test]
    fn pauses_are_counted_while_a_request_waits() {
        let mut meter = Meter::new(0, 10, None).unwrap();
        let mut now = 0;
        for wait in [100, PAUSE_NS - 1, PAUSE_NS, 2 * PAUSE_NS, 500, 8 * PAUSE_NS] {
            // For twice as long before it nobody waits.
            let arrival = now + 2 * wait;
            now = arrival + wait;
            meter.completed(arrival, now, Op::Read, 0, 4096);
        }
        let pauses = meter.pauses();
        assert_eq!((pauses.count(), pauses.max_ns()), (3, 8 * PAUSE_NS));
        let half = pauses.percentile_ns(0.5);
        assert!((2 * PAUSE_NS..=2 * PAUSE_NS + PAUSE_NS / 16).contains(&half), "{half}");
        assert_eq!(meter.longest_pause_ns().0, 8 * PAUSE_NS);
    }

    #[test]
    fn an_even_load_has_even_bandwidth_wherever_it_ends() {
        for requests in [100, 109, 111, 119, 1_234] {
            let mut meter = Meter::new(0, 1_000, None).unwrap();
            // Ten of them an interval.
            for at in 1..=requests {
                let done = at * INTERVAL_NS / 10 - 1;
                meter.completed(done, done, Op::Write, 0, 1 << 20);
            }
            let [_, writes] = meter.bandwidth();
            for (at, rate) in &writes.points {
                assert!((rate / 10_000.0 - 1.0).abs() < 1e-3, "{requests}: {rate} MiB/s at {at}");
            }
        }
    }

    #[test]
    fn intervals_widen_and_keep_every_byte() {
        let mut meter = Meter::new(1_000, 10, None).unwrap();
        for at in 0..1_000u64 {
            meter.completed(1_000 + at * 700_000, 1_000 + at * 700_000 + 5, Op::Write, 0, 4096);
        }
        let [reads, writes] = meter.bandwidth();
        let starts = writes.points.iter().skip(1).map(|point| point.0);
        let ends = starts.chain([meter.elapsed_ns() as f64 / 1e9]);
        let mib: f64 = writes.points.iter().zip(ends).map(|(at, end)| at.1 * (end - at.0)).sum();
        assert!((mib - 1_000.0 * 4096.0 / f64::from(1 << 20)).abs() < 1e-6, "{mib}");
        assert!(writes.points.len() <= 20 && reads.points.iter().all(|point| point.1 == 0.0));
        assert_eq!(meter.longest_pause_ns().0, 5);
    }
}
