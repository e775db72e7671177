//! `replay`: writes and trims, of a trace or of jobs, through a log of segments, without time or
//! device, to see what a placement and a victim policy cost in write amplification. `mjolnir advise`
//! is made of it.
//!
//! The drive starts full: all its blocks were written once, in order. A trace is begun at a request
//! that the seed chooses, and looped; of jobs the seed chooses the draws.

use std::io::Read;
use std::path::PathBuf;

use mjolnir_experiment::parse_configuration;
use mjolnir_experiment::{Kind, Outcome, nearest_hint};
use mjolnir_policy::PolicyError;
use mjolnir_policy::placement::{self, Bins, FutureKnowledge, Shape};
use mjolnir_policy::replay::{Replay, TRIM, Trigger};
use mjolnir_policy::victim::{self, VictimPolicy};
use mjolnir_study::Limit;
use mjolnir_study::recordings;
use mjolnir_units::BLOCK_SIZE;
use mjolnir_vtime::Chance;
use mjolnir_workload::synthetic::WorkloadSpec;
use mjolnir_workload::trace::{ReadOptions, TraceReader};
use mjolnir_workload::{Op, Request};
use serde::Deserialize;
use toml::Table;

use crate::prepare::{DRIVE_BLOCKS_MIN, Limits, Prepared};

/// Segments that a drive is cut into, if it is large enough.
const SEGMENTS: u64 = 256;
/// The fewest blocks of a segment.
const SEGMENT_BLOCKS_MIN: u64 = 16;
/// The most blocks of a drive, and steps of a replay: addresses and slots have 31 bits.
const BLOCKS_MAX: u64 = 1 << 28;
/// The most blocks of all segments: each stream may open a segment besides, and all have slots.
const CAPACITY_MAX: u64 = 1 << 29;

/// Requests in a row of jobs that write nothing, after which they are taken to have no writes.
const IDLE_REQUESTS_MAX: u64 = 1 << 20;

/// Policies that know the future: bounds, and no choices.
pub const FUTURES: [(&str, Bins); 3] = [
    ("future", Bins::Logarithmic),
    ("future-linear", Bins::Linear),
    ("future-quartering", Bins::Quartering),
];

/// When a victim is reclaimed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum When {
    /// While more segments hold something than the spare factor leaves: a drive of fixed capacity.
    #[default]
    Segments,
    /// When blocks that died in sealed segments are more than this share of all that are held, as in
    /// SepBIT's simulator.
    Garbage(f64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// A shipped recording by its name, or the path of a trace.
    trace: Option<String>,
    /// Jobs in place of a trace; one without `size` uses the whole drive.
    synthetic: Option<WorkloadSpec>,
    /// Blocks of the drive, on which the trace's volumes lie one after the other. If not said, the trace is made ready as
    /// for advice: the drive holds just what it reads or writes.
    blocks: Option<u64>,
    #[serde(default)]
    trigger: When,
    /// (segments' blocks - drive's blocks) / segments' blocks; of a drive of fixed capacity.
    spare: Option<f64>,
    /// Blocks of a segment; if not said, such that there are some [`SEGMENTS`].
    segment_blocks: Option<u32>,
    /// The most streams of a placement.
    streams_max: Option<u8>,
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    placement: String,
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    victim: String,
    /// Blocks written before those that are measured ...
    warm_blocks: Option<u64>,
    measured_blocks: Option<u64>,
    /// ... or in drive writes.
    warm: Option<f64>,
    measured: Option<f64>,
}

/// A write or a trim: first block, and the one after the last.
type Step = (Op, u32, u32);

/// What a drive of so many blocks makes of a configuration.
struct Drive {
    blocks: u64,
    warm_blocks: u64,
    measured_blocks: u64,
    replay: Replay,
}

impl Configuration {
    /// The share of all segments' blocks that is not the drive's.
    fn spare(&self) -> Result<f64, String> {
        match (self.trigger, self.spare) {
            (When::Segments, Some(spare)) => {
                crate::closed_form::check_spare(spare)?;
                Ok(spare)
            }
            (When::Segments, None) => {
                Err("spare: say which share of the segments the drive's blocks leave".to_owned())
            }
            (When::Garbage(share), None) if share > 0.0 && share < 1.0 => Ok(share),
            (When::Garbage(share), None) => {
                Err(format!("trigger.garbage = {share}: write more than 0 and less than 1"))
            }
            (When::Garbage(_), Some(_)) => Err("spare has no meaning with trigger.garbage, which \
                                                says how much space is spare"
                .to_owned()),
        }
    }

    /// Blocks written to a drive of so many, before those that are measured and then.
    fn lengths(&self, blocks: u64) -> Result<(u64, u64), String> {
        let length = |name: &str, count: Option<u64>, drives: Option<f64>| match (count, drives) {
            (Some(count), None) => Ok((format!("{name}_blocks = {count}"), count)),
            (None, Some(drives)) if drives >= 0.0 => {
                Ok((format!("{name} = {drives}"), (drives * blocks as f64).round() as u64))
            }
            (None, Some(drives)) => Err(format!("{name} = {drives}: write 0 or more")),
            _ => Err(format!("say either `{name}_blocks` or `{name}` (in drive writes)")),
        };
        let (_, warm) = length("warm", self.warm_blocks, self.warm)?;
        let (said, measured) = length("measured", self.measured_blocks, self.measured)?;
        if measured == 0 || warm.saturating_add(measured) > BLOCKS_MAX {
            return Err(format!(
                "{said}: write at least 1 block, and with those before at most {BLOCKS_MAX}"
            ));
        }
        Ok((warm, measured))
    }

    /// The drive, checked.
    fn drive(&self, blocks: u64) -> Result<Drive, String> {
        if !(1..=BLOCKS_MAX).contains(&blocks) {
            return Err(format!("blocks = {blocks}: write from 1 to {BLOCKS_MAX}"));
        }
        let (warm_blocks, measured_blocks) = self.lengths(blocks)?;
        let spare = self.spare()?;
        let capacity = (blocks as f64 / (1.0 - spare)).ceil();
        if capacity > CAPACITY_MAX as f64 {
            return Err(format!(
                "spare = {spare}: with {blocks} blocks the segments would hold {capacity:.0} in all, \
                 and a replay's hold at most {CAPACITY_MAX}; write less"
            ));
        }
        let capacity = capacity as u64;
        let own = self.segment_blocks.map(u64::from);
        let segment_blocks = own.unwrap_or((capacity / SEGMENTS).max(SEGMENT_BLOCKS_MIN));
        if !(1..=capacity).contains(&segment_blocks) {
            return Err(format!(
                "segment_blocks = {segment_blocks}: write from 1 to the {capacity} blocks of all \
                 segments"
            ));
        }
        let trigger = match self.trigger {
            When::Segments => Trigger::Segments(capacity.div_ceil(segment_blocks) as u32),
            When::Garbage(share) => Trigger::Garbage(share),
        };
        let replay = Replay { segment_blocks: segment_blocks as u32, trigger, fill: 0 };
        Ok(Drive { blocks, warm_blocks, measured_blocks, replay })
    }

    fn victim(&self, seed: u64) -> Result<Box<dyn VictimPolicy>, String> {
        victim::seeded(&self.victim, seed).map_err(|error| format!("victim: {error}"))
    }

    fn future(&self) -> Option<Bins> {
        FUTURES.iter().find(|(name, _)| *name == self.placement).map(|(_, bins)| *bins)
    }

    fn streams_max(&self) -> u8 {
        self.streams_max.unwrap_or(Shape::default().streams_max)
    }

    /// The drive, what is done to it, and how many steps come before those that are measured.
    fn load(&self, seed: u64, notes: &mut Vec<String>) -> Result<(Drive, Vec<u32>, usize), String> {
        let trace = match (&self.trace, &self.synthetic) {
            (Some(trace), None) => trace,
            (None, Some(spec)) => {
                let drive = self.drive(self.blocks.unwrap_or_default())?;
                let (load, fill) = Filling::new(&drive).of_jobs(spec, seed)?;
                return Ok((drive, load, fill));
            }
            _ => return Err(EITHER.to_owned()),
        };
        let mut reader = open(trace)?;
        let (blocks, requests) = match self.blocks {
            Some(blocks) => {
                let (requests, told) = requests(&mut reader, trace, blocks)?;
                notes.extend(reader.report().lines());
                notes.extend(told);
                (blocks, requests)
            }
            None => {
                let limits = Limits { requests: u64::MAX, blocks: BLOCKS_MAX };
                let prepared = Prepared::new(&mut reader, None, limits);
                let prepared = prepared.map_err(|error| format!("trace: {error}"))?;
                notes.extend(reader.report().lines());
                notes.extend(prepared.notes.iter().cloned());
                (prepared.blocks, prepared.steps().collect())
            }
        };
        let drive = self.drive(blocks)?;
        let (load, fill) = Filling::new(&drive).of_trace(&requests, seed);
        Ok((drive, load, fill))
    }
}

const EITHER: &str = "say either `trace` (a recording's name, or the path of a trace) or `synthetic` \
                      (jobs in fio's words)";

/// A load in the making: the drive's blocks once, in order, and then what is asked of it.
struct Filling {
    load: Vec<u32>,
    /// A trim of what is not there is no step: so there are no more trims than writes.
    live: Vec<bool>,
    left: u64,
    measured_blocks: u64,
    fill: usize,
}

impl Filling {
    fn new(drive: &Drive) -> Self {
        let load: Vec<u32> = (0..drive.blocks as u32).collect();
        Filling {
            live: vec![true; load.len()],
            left: drive.warm_blocks + drive.measured_blocks,
            measured_blocks: drive.measured_blocks,
            fill: load.len(),
            load,
        }
    }

    fn take(&mut self, (op, first, end): Step) {
        for block in first..end {
            match op {
                Op::Trim if self.live[block as usize] => {
                    self.live[block as usize] = false;
                    self.load.push(block | TRIM);
                }
                Op::Write if self.left > 0 => {
                    if self.left == self.measured_blocks {
                        self.fill = self.load.len();
                    }
                    self.live[block as usize] = true;
                    self.load.push(block);
                    self.left -= 1;
                }
                _ => {}
            }
        }
    }

    fn of_trace(mut self, requests: &[Step], seed: u64) -> (Vec<u32>, usize) {
        let mut at = Chance::new(seed).below(requests.len() as u64) as usize;
        while self.left > 0 {
            self.take(requests[at]);
            at = (at + 1) % requests.len();
        }
        (self.load, self.fill)
    }

    fn of_jobs(mut self, spec: &WorkloadSpec, seed: u64) -> Result<(Vec<u32>, usize), String> {
        let mut requests = jobs(spec, self.live.len() as u64, seed)?;
        let mut idle = 0;
        while self.left > 0 {
            let before = self.left;
            let Some(request) = requests.next() else {
                return Err(format!(
                    "synthetic: the jobs end {} blocks of writes too early; give them no end",
                    self.left
                ));
            };
            self.take(request);
            idle = if self.left < before { 0 } else { idle + 1 };
            if idle > IDLE_REQUESTS_MAX {
                return Err(
                    "synthetic: the jobs do not write, so nothing is ever reclaimed".to_owned()
                );
            }
        }
        Ok((self.load, self.fill))
    }
}

/// What the jobs ask of a drive of so many blocks. Requests that neither write nor trim are empty.
fn jobs(
    spec: &WorkloadSpec,
    blocks: u64,
    seed: u64,
) -> Result<impl Iterator<Item = Step> + use<>, String> {
    let workload = mjolnir_study::jobs(spec, blocks * BLOCK_SIZE, seed, Limit::Requests)
        .map_err(|why| why.trim_start_matches("workload.").to_owned())?;
    let requests = workload.interleaved().map_err(|error| format!("synthetic: {error}"))?;
    let step = |request| {
        let (op, first, end) = extent(&request).unwrap_or((Op::Flush, 0, 0));
        (op, first as u32, end as u32)
    };
    Ok(requests.map(move |(_, request)| step(request)))
}

/// A request in whole blocks: writes widened, trims narrowed; `None` for what changes nothing.
fn extent(request: &Request) -> Option<(Op, u64, u64)> {
    let (first, end) = (request.offset / BLOCK_SIZE, request.end().div_ceil(BLOCK_SIZE));
    match request.op {
        Op::Read | Op::Flush => None,
        Op::Write | Op::WriteZeroes => Some((Op::Write, first, end)),
        Op::Trim => {
            let first = request.offset.div_ceil(BLOCK_SIZE);
            Some((Op::Trim, first, (request.end() / BLOCK_SIZE).max(first)))
        }
    }
}

fn open(trace: &str) -> Result<TraceReader<Box<dyn Read>>, String> {
    let file =
        recordings::open(trace).map_err(|error| format!("trace: opening {trace}: {error}"))?;
    TraceReader::open(file, trace, &ReadOptions::default())
        .map_err(|error| format!("trace: {error}"))
}

/// Writes and trims of a trace, whose volumes lie one after the other on a drive of so many blocks, and
/// what that changed, in sentences.
fn requests(
    reader: &mut TraceReader<Box<dyn Read>>,
    trace: &str,
    blocks: u64,
) -> Result<(Vec<Step>, Vec<String>), String> {
    let (mut requests, mut ends): (_, Vec<u64>) = (Vec::new(), Vec::new());
    let (mut writes, mut widened, mut narrowed, mut dropped) = (0u64, 0u64, 0u64, 0u64);
    let mut needed = 0u64;
    while let Some(request) = reader.next_request().map_err(|error| format!("trace: {error}"))? {
        let Some((op, first, end)) = extent(&request) else { continue };
        let whole = request.length == (end - first) * BLOCK_SIZE;
        match op {
            Op::Trim if first == end => {
                dropped += 1;
                continue;
            }
            Op::Trim => narrowed += u64::from(!whole),
            _ => {
                writes += 1;
                widened += u64::from(!whole);
            }
        }
        let volume = request.volume.0 as usize;
        if ends.len() <= volume {
            ends.resize(volume + 1, 0);
        }
        needed = needed.saturating_add(end.saturating_sub(ends[volume]));
        ends[volume] = ends[volume].max(end);
        if needed <= blocks {
            requests.push((volume, (op, first as u32, end as u32)));
        }
    }
    if needed > blocks {
        let way = match needed > BLOCKS_MAX {
            false => format!("write blocks = {needed}, or more"),
            true => format!("a replay's drive has {BLOCKS_MAX} at most"),
        };
        return Err(format!(
            "blocks = {blocks}: the writes and trims of {trace} reach over {needed} blocks; {way}"
        ));
    }
    if writes == 0 {
        return Err(format!("trace: {trace} has no writes, so nothing is ever reclaimed"));
    }
    let starts: Vec<u32> = ends
        .iter()
        .scan(0, |start, end| Some(std::mem::replace(start, *start + *end as u32)))
        .collect();
    let placed = requests.into_iter().map(|(volume, (op, first, end))| {
        let start = starts[volume];
        (op, start + first, start + end)
    });
    let volumes = ends.iter().filter(|end| **end > 0).count();
    let mut notes = Vec::new();
    if volumes > 1 {
        notes.push(format!("its {volumes} volumes lie one after the other"));
    }
    for (count, what) in [
        (widened, "writes were widened to whole blocks of 4 KiB"),
        (narrowed, "trims were narrowed to whole blocks of 4 KiB"),
        (dropped, "trims that hold no whole block were left out"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    Ok((placed.collect(), notes))
}

pub(super) struct ReplayTrace;

impl Kind for ReplayTrace {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn check(&self, configuration: &Table) -> Result<(), String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        let of_jobs = match (&configuration.trace, &configuration.synthetic) {
            (Some(_), None) => false,
            (None, Some(_)) => true,
            _ => return Err(EITHER.to_owned()),
        };
        match configuration.blocks {
            Some(blocks) => {
                configuration.drive(blocks)?;
                configuration.synthetic.as_ref().map(|spec| jobs(spec, blocks, 0)).transpose()?;
            }
            None if of_jobs => return Err("blocks: say how many the drive has".to_owned()),
            // The trace says how many; with the fewest that it may have, the rest can be checked.
            None => {
                configuration.spare()?;
                configuration.lengths(DRIVE_BLOCKS_MIN)?;
            }
        }
        if configuration.streams_max() == 0 {
            return Err("streams_max = 0: write at least 1".to_owned());
        }
        configuration.victim(0)?;
        let name = configuration.placement.as_str();
        let futures = FUTURES.map(|(name, _)| name);
        if !futures.contains(&name)
            && let Err(error) = placement::by_name(name)
        {
            let PolicyError::Unknown { .. } = error else {
                return Err(format!("placement: {error}"));
            };
            let hint = nearest_hint(name, placement::names().chain(futures));
            return Err(format!("placement: no policy is called {name:?}{hint}"));
        }
        Ok(())
    }

    fn inputs(&self, configuration: &Table) -> Vec<PathBuf> {
        let configuration = parse_configuration::<Configuration>(configuration);
        let trace = configuration.ok().and_then(|known| known.trace);
        trace.as_deref().and_then(recordings::path).into_iter().collect()
    }

    fn run(
        &self,
        configuration: &Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        let mut outcome = Outcome::default();
        let (drive, load, fill) = configuration.load(seed, &mut outcome.notes)?;
        if !progress(0.1) {
            return Err("told to stop".to_owned());
        }
        let replay = Replay { fill, ..drive.replay };
        let mut victims = configuration.victim(seed)?;
        let streams_max = configuration.streams_max();
        let shape = Shape { streams_max, ..replay.shape(drive.blocks) };
        let report = match configuration.future() {
            Some(bins) => {
                let future = FutureKnowledge::new(bins, streams_max, shape.segment_blocks);
                replay.run_offline(&load, &mut *victims, &future)
            }
            None => {
                let placement = placement::by_name_for(&configuration.placement, &shape)
                    .map_err(|error| format!("placement: {error}"))?;
                replay.run(&load, &mut *victims, placement)
            }
        };
        if report.stuck {
            outcome.notes.push(format!(
                "no figures: {} with {} has no room to reclaim in at a spare factor of {}",
                configuration.placement,
                configuration.victim,
                configuration.spare()?
            ));
            return Ok(outcome);
        }
        let [first, second] = report.waf_halves();
        for (name, number) in [
            ("waf", report.waf()),
            ("waf_first_half", first),
            ("waf_second_half", second),
            ("client_blocks", report.client_blocks as f64),
            ("moved_blocks", report.moved_blocks as f64),
            ("victims", report.victims as f64),
            ("spare_mean", report.spare_mean),
            ("placement_bytes", report.placement_bytes as f64),
        ] {
            outcome.numbers.insert(name.to_owned(), number);
        }
        if report.victims == 0 {
            outcome.notes.push("nothing was reclaimed: there was room for all".to_owned());
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_units::Instant;
    use mjolnir_workload::VolumeId;
    use mjolnir_workload::trace::{Format, TraceWriter, Volumes};

    use super::*;

    const WHOLE: &str =
        "placement = \"together\"\nvictim = \"greedy\"\nwarm = 0.0\nmeasured = 1.0\n";
    const JOBS: &str = "blocks = 8192\nsynthetic.job = [{ rw = \"randwrite\" }]\n";

    fn check(text: &str) -> Result<(), String> {
        ReplayTrace.check(&toml::from_str(&(text.to_owned() + WHOLE)).unwrap())
    }

    fn run(text: &str) -> Outcome {
        let table = toml::from_str(&(text.to_owned() + WHOLE)).unwrap();
        ReplayTrace.check(&table).unwrap();
        ReplayTrace.run(&table, 1, &mut |_| true).unwrap()
    }

    #[test]
    fn a_spare_that_leaves_no_addresses_is_refused() {
        let check =
            |spare: f64| check(&format!("trace = \"t\"\nblocks = 1000000\nspare = {spare:?}\n"));
        check(0.9).unwrap_or_else(|why| assert!(!why.contains("spare"), "{why}"));
        for spare in [0.9999, 0.999_999_999_999] {
            let why = check(spare).unwrap_err();
            assert!(why.starts_with("spare = 0.9999"), "{why}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        for (text, said) in [
            (JOBS.to_owned(), "spare: "),
            (JOBS.to_owned() + "spare = 0.2\ntrace = \"sqlite\"\n", "either `trace`"),
            (JOBS.to_owned() + "spare = 0.2\ntrigger.garbage = 0.15\n", "spare has no meaning"),
            (JOBS.to_owned() + "trigger.garbage = 1.5\n", "trigger.garbage = 1.5"),
            (JOBS.to_owned() + "trigger = \"garbage-share\"\n", "garbage-share"),
            (JOBS.to_owned() + "spare = 0.2\nsegment_blocks = 100000\n", "segment_blocks = 100000"),
            (JOBS.to_owned() + "spare = 0.2\nwarm_blocks = 1\n", "either `warm_blocks` or `warm`"),
            (JOBS.to_owned() + "spare = 0.2\nstreams_max = 0\n", "streams_max = 0"),
            (JOBS.replace("randwrite", "randwrit") + "spare = 0.2\n", "synthetic: "),
            (JOBS.replace("blocks = 8192", "spare = 0.2"), "blocks: "),
        ] {
            let why = check(&text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
        let table = JOBS.replace("randwrite", "randread") + "spare = 0.2\n" + WHOLE;
        let why = ReplayTrace.run(&toml::from_str(&table).unwrap(), 1, &mut |_| true).unwrap_err();
        assert!(why.contains("do not write"), "{why}");
    }

    /// Garbage in open segments is not counted: the more streams, the more space is used. A fixed
    /// capacity is one whatever the streams.
    #[test]
    fn a_share_of_garbage_triggers_too() {
        let spare = |when: &str, placement: &str| {
            let text = format!("{JOBS}segment_blocks = 128\n{when}\n{WHOLE}");
            let table = toml::from_str(&text.replace("together", placement)).unwrap();
            ReplayTrace.run(&table, 1, &mut |_| true).unwrap().numbers["spare_mean"]
        };
        let more = |when: &str| spare(when, "sepbit") - spare(when, "together");
        let (fixed, garbage) = (more("spare = 0.15"), more("trigger.garbage = 0.15"));
        assert!(fixed.abs() < 0.002 && garbage > 0.005, "{fixed} {garbage}");
    }

    #[test]
    fn a_shipped_recording_is_made_ready_where_no_blocks_are_said() {
        let outcome = run("trace = \"build\"\nspare = 0.2\n");
        assert!(outcome.numbers["waf"] >= 1.0 && outcome.numbers["client_blocks"] > 4096.0);
        assert!(outcome.notes.iter().any(|note| note.contains("read or written")), "{outcome:?}");
        let inputs = |name: &str| {
            let text = format!("trace = {name:?}\nspare = 0.2\n{WHOLE}");
            ReplayTrace.inputs(&toml::from_str(&text).unwrap()).len()
        };
        assert_eq!((inputs("build"), inputs("build.mjtrace")), (0, 1));
    }

    #[test]
    fn a_drive_too_small_for_its_trace_is_told_what_all_of_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let line = |block: u64| {
            let time = 128_166_372_003_061_629 + block;
            format!("{time},web,0,Write,{},4096,10\n", block * BLOCK_SIZE)
        };
        std::fs::write(&path, [5, 20, 99, 40].map(line).concat()).unwrap();
        let path = path.to_str().unwrap();
        let read = |blocks| {
            let mut reader = open(path).unwrap();
            let steps = requests(&mut reader, path, blocks);
            steps.map(|(steps, _)| (steps, reader.report().lines()))
        };
        let why = read(10).unwrap_err();
        assert!(why.starts_with("blocks = 10: ") && why.contains("blocks = 100,"), "{why}");
        let (requests, notes) = read(100).unwrap();
        assert_eq!(requests.len(), 4);
        assert!(notes[0].starts_with("read as msr"), "{notes:?}");
        // The last of them comes before the third.
        assert!(notes[1].starts_with("1 time went back"), "{notes:?}");
    }

    #[test]
    fn volumes_lie_one_after_the_other_and_what_was_rounded_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.mjtrace");
        let mut volumes = Volumes::new();
        let mut writer = TraceWriter::new(Vec::new(), Format::Mjolnir, None).unwrap();
        for name in ["a", "b", "c"] {
            volumes.intern(name.as_bytes()).unwrap();
        }
        for (volume, op, offset, length) in [
            (0, Op::Write, 0, 3 * BLOCK_SIZE),
            (1, Op::Write, BLOCK_SIZE, BLOCK_SIZE),
            (0, Op::Read, 9 * BLOCK_SIZE, BLOCK_SIZE),
            (2, Op::Write, 512, 512),
            (2, Op::Trim, 512, 2 * BLOCK_SIZE),
            (1, Op::Trim, 0, 512),
            (0, Op::Write, 3 * BLOCK_SIZE, BLOCK_SIZE),
        ] {
            let (time, volume) = (Instant(0), VolumeId(volume));
            let request = Request { time, volume, op, offset, length, stream: None, latency: None };
            writer.write(&request, &volumes).unwrap();
        }
        std::fs::write(&path, writer.finish().unwrap().0).unwrap();
        let path = path.to_str().unwrap();
        let read = |blocks| requests(&mut open(path).unwrap(), path, blocks);
        let (steps, notes) = read(8).unwrap();
        let wanted = [
            (Op::Write, 0, 3),
            (Op::Write, 5, 6),
            (Op::Write, 6, 7),
            (Op::Trim, 7, 8),
            (Op::Write, 3, 4),
        ];
        assert_eq!(steps, wanted);
        for wanted in [
            "its 3 volumes lie one after the other",
            "1 writes were widened to whole blocks of 4 KiB",
            "1 trims were narrowed to whole blocks of 4 KiB",
            "1 trims that hold no whole block were left out",
        ] {
            assert!(notes.iter().any(|note| note == wanted), "no {wanted:?}: {notes:?}");
        }
        let why = read(7).unwrap_err();
        assert!(why.starts_with("blocks = 7: ") && why.contains("blocks = 8,"), "{why}");
    }
}
