//! `replay`: a trace's writes and trims through a log of segments, without time or device, to see
//! what a placement and a victim policy cost in write amplification. `mjolnir advise` is made of it.
//!
//! The drive starts full: all its blocks were written once, in order. The trace is begun at a
//! request that the seed chooses, and looped.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use mjolnir_policy::placement::{self, Bins, FutureKnowledge, Shape};
use mjolnir_policy::replay::{Replay, TRIM, Trigger};
use mjolnir_policy::victim::{self, VictimPolicy};
use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::Op;
use mjolnir_workload::trace::{ReadOptions, TraceReader};
use serde::Deserialize;
use toml::Table;

use crate::Chance;
use crate::experiment::mistake::parse_configuration;
use crate::experiment::{Kind, Outcome, nearest_hint};

/// Segments that a drive is cut into, if it is large enough.
const SEGMENTS: u64 = 256;
/// The fewest blocks of a segment.
const SEGMENT_BLOCKS_MIN: u64 = 16;
/// The most blocks of a drive, and steps of a replay: addresses and slots have 31 bits.
const BLOCKS_MAX: u64 = 1 << 28;
/// The most blocks of all segments: each stream may open a segment besides, and all have slots.
const CAPACITY_MAX: u64 = 1 << 29;

/// Policies that know the future: bounds, and no choices.
pub(crate) const FUTURES: [(&str, Bins); 3] = [
    ("future", Bins::Logarithmic),
    ("future-linear", Bins::Linear),
    ("future-quartering", Bins::Quartering),
];

/// What a request does to blocks: the first, and the one after the last.
type Range = (Op, u32, u32);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    /// The path of a trace whose addresses are those of the drive.
    trace: String,
    /// Blocks of the drive.
    blocks: u64,
    /// (segments' blocks - drive's blocks) / segments' blocks.
    spare: f64,
    placement: String,
    victim: String,
    /// Blocks written by the trace before those that are measured.
    warm_blocks: u64,
    measured_blocks: u64,
}

impl Configuration {
    /// Blocks of all segments.
    fn capacity(&self) -> f64 {
        (self.blocks as f64 / (1.0 - self.spare)).ceil()
    }

    fn replay(&self) -> Replay {
        let capacity = self.capacity() as u64;
        let segment_blocks = (capacity / SEGMENTS).max(SEGMENT_BLOCKS_MIN);
        let segments = capacity.div_ceil(segment_blocks);
        let trigger = Trigger::Segments(segments as u32);
        Replay { segment_blocks: segment_blocks as u32, trigger, fill: 0 }
    }

    fn victim(&self, seed: u64) -> Result<Box<dyn VictimPolicy>, String> {
        victim::seeded(&self.victim, seed).map_err(|error| format!("victim: {error}"))
    }

    fn future(&self) -> Option<Bins> {
        FUTURES.iter().find(|(name, _)| *name == self.placement).map(|(_, bins)| *bins)
    }

    /// The load, how many of its steps come before those that are measured, and how the trace was
    /// read.
    fn load(&self, seed: u64) -> Result<(Vec<u32>, usize, Vec<String>), String> {
        let (requests, notes) = self.requests()?;
        let mut load: Vec<u32> = (0..self.blocks as u32).collect();
        // A trim of what is not there is no step: so there are no more trims than writes.
        let mut live = vec![true; self.blocks as usize];
        let mut at = Chance::new(seed).below(requests.len() as u64) as usize;
        let (mut left, mut fill) = (self.warm_blocks + self.measured_blocks, load.len());
        while left > 0 {
            let &(op, first, end) = &requests[at];
            for block in first..end {
                match op {
                    Op::Trim if live[block as usize] => {
                        live[block as usize] = false;
                        load.push(block | TRIM);
                    }
                    Op::Write if left > 0 => {
                        if left == self.measured_blocks {
                            fill = load.len();
                        }
                        live[block as usize] = true;
                        load.push(block);
                        left -= 1;
                    }
                    _ => {}
                }
            }
            at = (at + 1) % requests.len();
        }
        Ok((load, fill, notes))
    }

    /// Writes and trims, each with its first block and the one after its last; and how the trace was
    /// read.
    fn requests(&self) -> Result<(Vec<Range>, Vec<String>), String> {
        let path = &self.trace;
        let file = File::open(path).map_err(|error| format!("trace: opening {path}: {error}"))?;
        let failed = |error: &dyn std::fmt::Display| format!("trace: {error}");
        let mut reader = TraceReader::open(BufReader::new(file), path, &ReadOptions::default())
            .map_err(|error| failed(&error))?;
        let (mut requests, mut writes, mut needed) = (Vec::new(), 0u64, 0u64);
        while let Some(request) = reader.next_request().map_err(|error| failed(&error))? {
            let (op, first, end) = match request.op {
                Op::Read | Op::Flush => continue,
                Op::Write | Op::WriteZeroes => {
                    writes += 1;
                    (Op::Write, request.offset / BLOCK_SIZE, request.end().div_ceil(BLOCK_SIZE))
                }
                Op::Trim => {
                    let first = request.offset.div_ceil(BLOCK_SIZE);
                    (Op::Trim, first, (request.end() / BLOCK_SIZE).max(first))
                }
            };
            needed = needed.max(end);
            if needed <= self.blocks {
                requests.push((op, first as u32, end as u32));
            }
        }
        if needed > self.blocks {
            let way = match needed > BLOCKS_MAX {
                false => format!("write blocks = {needed}, or more"),
                true => format!("a replay's drive has {BLOCKS_MAX} at most"),
            };
            return Err(format!(
                "blocks = {}: the writes and trims of {path} reach over {needed} blocks; {way}",
                self.blocks
            ));
        }
        match writes {
            0 => Err(format!("trace: {path} has no writes, so nothing is ever reclaimed")),
            _ => Ok((requests, reader.report().lines())),
        }
    }
}

pub(super) struct ReplayTrace;

impl Kind for ReplayTrace {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn check(&self, configuration: &Table) -> Result<(), String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        super::closed_form::check_spare(configuration.spare)?;
        if !(1..=BLOCKS_MAX).contains(&configuration.blocks) {
            let blocks = configuration.blocks;
            return Err(format!("blocks = {blocks}: write from 1 to {BLOCKS_MAX}"));
        }
        let (warm, measured) = (configuration.warm_blocks, configuration.measured_blocks);
        if measured == 0 || warm.saturating_add(measured) > BLOCKS_MAX {
            return Err(format!(
                "measured_blocks = {measured}: write at least 1, and with warm_blocks at most \
                 {BLOCKS_MAX}"
            ));
        }
        if configuration.capacity() > CAPACITY_MAX as f64 {
            return Err(format!(
                "spare = {}: with {} blocks the segments would hold {:.0} in all, and a replay's \
                 hold at most {CAPACITY_MAX}; write less",
                configuration.spare,
                configuration.blocks,
                configuration.capacity()
            ));
        }
        configuration.victim(0)?;
        let name = configuration.placement.as_str();
        let futures = FUTURES.map(|(name, _)| name);
        if !futures.contains(&name) && placement::by_name(name).is_err() {
            let hint = nearest_hint(name, placement::names().chain(futures));
            return Err(format!("placement: no policy is called {name:?}{hint}"));
        }
        Ok(())
    }

    fn inputs(&self, configuration: &Table) -> Vec<PathBuf> {
        let configuration = parse_configuration::<Configuration>(configuration);
        configuration.map(|known| vec![PathBuf::from(known.trace)]).unwrap_or_default()
    }

    fn run(
        &self,
        configuration: &Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        let (load, fill, notes) = configuration.load(seed)?;
        if !progress(0.1) {
            return Err("told to stop".to_owned());
        }
        let replay = Replay { fill, ..configuration.replay() };
        let mut victims = configuration.victim(seed)?;
        let shape = replay.shape(configuration.blocks);
        let report = match configuration.future() {
            Some(bins) => {
                let streams = Shape::default().streams_max;
                let future = FutureKnowledge::new(bins, streams, shape.segment_blocks);
                replay.run_offline(&load, &mut *victims, &future)
            }
            None => {
                let placement = placement::by_name_for(&configuration.placement, &shape)
                    .map_err(|error| format!("placement: {error}"))?;
                replay.run(&load, &mut *victims, placement)
            }
        };
        let mut outcome = Outcome { notes, ..Outcome::default() };
        if report.stuck {
            outcome.notes.push(format!(
                "no figures: {} with {} has no room to reclaim in at a spare factor of {}",
                configuration.placement, configuration.victim, configuration.spare
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
    use super::*;

    #[test]
    fn a_spare_that_leaves_no_addresses_is_refused() {
        let check = |spare: f64| {
            let text = format!(
                "trace = \"t\"\nblocks = 1000000\nspare = {spare:?}\nplacement = \"together\"\n\
                 victim = \"greedy\"\nwarm_blocks = 0\nmeasured_blocks = 10"
            );
            ReplayTrace.check(&toml::from_str(&text).unwrap())
        };
        check(0.9).unwrap_or_else(|why| assert!(!why.contains("spare"), "{why}"));
        for spare in [0.9999, 0.999_999_999_999] {
            let why = check(spare).unwrap_err();
            assert!(why.starts_with("spare = 0.9999"), "{why}");
        }
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
        let requests = |blocks| {
            let configuration = Configuration {
                trace: path.to_str().unwrap().to_owned(),
                blocks,
                spare: 0.2,
                placement: "together".to_owned(),
                victim: "greedy".to_owned(),
                warm_blocks: 0,
                measured_blocks: 1,
            };
            configuration.requests()
        };
        let why = requests(10).unwrap_err();
        assert!(why.starts_with("blocks = 10: ") && why.contains("blocks = 100,"), "{why}");
        let (requests, notes) = requests(100).unwrap();
        assert_eq!(requests.len(), 4);
        assert!(notes[0].starts_with("read as msr"), "{notes:?}");
        // The last of them comes before the third.
        assert!(notes[1].starts_with("1 time went back"), "{notes:?}");
    }
}
