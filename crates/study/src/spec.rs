//! What a study is, as an experiment's `[configuration]` says it.

use std::time::Duration;

use mjolnir_engine::{OpenOptions, ReclaimOptions, STREAMS_MAX};
use mjolnir_policy::{PolicyError, pacing, placement, read_plan, victim};
use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::fit::FitSpec;
use mjolnir_workload::synthetic::WorkloadSpec;
use serde::{Deserialize, Serialize};

use super::limits::Limit;

/// The least memory of an engine: with less it does little but read its map again and again.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// A study: a drive, what it held, what is asked of it, and what of that is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The hardware.
    pub device: DeviceSpec,
    /// The drive that is made of it.
    #[serde(default)]
    pub drive: DriveSpec,
    /// How its engine is set, for `drive.kind = "engine"`.
    #[serde(default)]
    pub engine: EngineSpec,
    /// What is asked of it.
    pub workload: LoadSpec,
    /// What was done to it before, in no time.
    #[serde(default)]
    pub precondition: PreconditionSpec,
    /// What of it is measured.
    #[serde(default)]
    pub measure: MeasureSpec,
}

/// The hardware: a device file, and what differs from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// A shipped device by name, or the path of a device file.
    pub file: String,
    /// In place of the file's `[nand]` fields.
    #[serde(default)]
    pub nand: toml::Table,
    /// In place of the file's `[timing]` fields.
    #[serde(default)]
    pub timing: toml::Table,
    /// In place of the file's `[controller]` fields.
    #[serde(default)]
    pub controller: toml::Table,
    /// In place of the file's `[ftl]` fields, for `drive.kind = "page-mapped"`; of them an engine's
    /// drive has `over_provisioning` and `wear_gap_max` alone.
    #[serde(default)]
    pub ftl: toml::Table,
    /// In place of the file's `[faults]` fields.
    #[serde(default)]
    pub faults: toml::Table,
}

/// What runs on the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// The shipping engine behind a block interface.
    #[default]
    Engine,
    /// A plain page-mapped firmware FTL.
    PageMapped,
}

/// The drive.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DriveSpec {
    /// What runs on the hardware.
    pub kind: DriveKind,
    /// Share of the NAND's bytes that the host is not offered; the device file's if not said.
    pub over_provisioning: Option<f64>,
    /// Bytes that the host is offered, in place of a share: `4G`.
    pub bytes: Option<Bytes>,
    /// Planes whose erase blocks make up a zone; as many as leave 256 zones if not said.
    pub zone_planes: Option<u32>,
    /// Erase blocks of each plane that are kept back to stand in for those that fail, with
    /// `kind = "engine"`; if not said, 2 % and at least one where `device.faults` has any fail, else
    /// none.
    pub spare_blocks: Option<u32>,
}

/// Bytes: a number, or a text with a unit, such as `512K`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    /// So many.
    Number(u64),
    /// With a unit.
    Text(String),
}

impl Bytes {
    /// As a number; `key` is what the error names.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the key.
    pub fn get(&self, key: &str) -> Result<u64, String> {
        match self {
            Bytes::Number(number) => Ok(*number),
            Bytes::Text(text) => text
                .parse::<mjolnir_units::ByteSize>()
                .map(|size| size.0)
                .map_err(|error| format!("{key}: {error}")),
        }
    }
}

/// How the engine is set. What is not said is as in the engine's own options.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSpec {
    /// The victim policy.
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub victim: String,
    /// The placement policy.
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub placement: String,
    /// The pacing policy.
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub pacing: String,
    /// The read-plan policy.
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    pub read_plan: String,
    /// Victims between two marks at most; 1 is one victim at a time.
    pub candidates_max: usize,
    /// A segment is a candidate while at most this part of it is live.
    pub candidate_threshold: f64,
    /// Reclaim rests while less than this part of the segments is in use.
    pub start_utilization: f64,
    /// The part of a core that scanning takes while space is plentiful.
    pub scan_cpu_max: f64,
    /// Append points of clients.
    pub client_streams: u8,
    /// A checkpoint is taken after so many bytes of log; an eighth of the drive, but at most 1 GiB,
    /// if not said.
    pub checkpoint_bytes: Option<Bytes>,
    /// Memory budget; on a simulated drive enough for map and checksums of all of it if not said.
    pub memory_bytes: Option<Bytes>,
    /// How long a partly filled group waits for company, in microseconds; on a simulated drive
    /// 10,000 if not said.
    pub linger_us: Option<f64>,
    /// Before each segment is given up, prove by a walk of the map that nothing refers to it.
    pub paranoid: bool,
    /// Processor time of a request, in nanoseconds of one core.
    pub request_ns: f64,
    /// Processor time of each mapping that a mark looks at, in nanoseconds.
    pub scan_ns_per_mapping: f64,
    /// Cores that marks may use.
    pub cores: usize,
}

impl Default for EngineSpec {
    fn default() -> Self {
        let engine = ReclaimOptions::default();
        EngineSpec {
            victim: engine.policy,
            placement: OpenOptions::default().placement,
            pacing: engine.pacing,
            read_plan: engine.read_plan,
            candidates_max: engine.candidates_max,
            candidate_threshold: engine.candidate_threshold,
            start_utilization: engine.start_utilization,
            scan_cpu_max: engine.scan_cpu_max,
            client_streams: 1,
            checkpoint_bytes: None,
            memory_bytes: None,
            linger_us: None,
            paranoid: false,
            // Measured with the shipping engine on a device in memory, one core of a 3 GHz server:
            // rounded.
            request_ns: 2_000.0,
            // `mjolnir-bench mark-64g` gave 674 million mappings a second on one core: 1.48 ns.
            scan_ns_per_mapping: 1.5,
            cores: 1,
        }
    }
}

impl EngineSpec {
    /// The engine's options for a device of so many bytes; `unsaid` has those that are not said.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the key.
    pub fn options(&self, physical: u64, unsaid: OpenOptions) -> Result<OpenOptions, String> {
        let number =
            |key: &str, value: f64, most: f64, what: &str| match (0.0..=most).contains(&value) {
                true => Ok(value),
                false => Err(format!("engine.{key} = {value}: write {what}")),
            };
        let share = |key: &str, value| number(key, value, 1.0, "a share from 0 to 1");
        let large = |key: &str, value| number(key, value, 1e9, "a number from 0 to 1e9");
        let bytes_or = |key: &str, value: &Option<Bytes>, unsaid: u64| match value {
            Some(bytes) => bytes.get(&format!("engine.{key}")),
            None => Ok(unsaid),
        };
        let memory_bytes = bytes_or("memory_bytes", &self.memory_bytes, unsaid.memory_bytes)?;
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err("engine.memory_bytes: write at least 1M".to_owned());
        }
        known("victim", victim::by_name(&self.victim))?;
        known("placement", placement::by_name(&self.placement))?;
        known("pacing", pacing::by_name(&self.pacing))?;
        check_read_plan(&self.read_plan)?;
        if self.candidates_max == 0 {
            return Err("engine.candidates_max: write at least 1".to_owned());
        }
        if !(1..=STREAMS_MAX).contains(&self.client_streams) {
            let streams = self.client_streams;
            return Err(format!("engine.client_streams = {streams}: write 1 to {STREAMS_MAX}"));
        }
        let linger = match self.linger_us {
            Some(us) => Duration::from_nanos((large("linger_us", us)? * 1e3) as u64),
            None => unsaid.linger,
        };
        Ok(OpenOptions {
            linger,
            client_streams: self.client_streams,
            placement: self.placement.clone(),
            memory_bytes,
            checkpoint_bytes: bytes_or(
                "checkpoint_bytes",
                &self.checkpoint_bytes,
                (physical / 8).clamp(16 << 20, 1 << 30),
            )?,
            reclaim: ReclaimOptions {
                enabled: true,
                start_utilization: share("start_utilization", self.start_utilization)?,
                candidate_threshold: share("candidate_threshold", self.candidate_threshold)?,
                policy: self.victim.clone(),
                seed: 0,
                pacing: self.pacing.clone(),
                read_plan: self.read_plan.clone(),
                candidates_max: self.candidates_max,
                scan_cpu_max: large("scan_cpu_max", self.scan_cpu_max)?,
                ..unsaid.reclaim
            },
            paranoid: self.paranoid,
            ..unsaid
        })
    }
}

/// Refuses a policy that there is not, by its key in `engine`.
fn known<P>(key: &str, found: Result<P, PolicyError>) -> Result<(), String> {
    found.map(drop).map_err(|unknown| format!("engine.{key}: {unknown}"))
}

/// Refuses a read-plan policy that there is not.
///
/// # Errors
///
/// A sentence that begins with the key.
pub fn check_read_plan(name: &str) -> Result<(), String> {
    known("read_plan", read_plan::by_name(name))
}

/// What is asked of the drive: a synthetic workload, or a trace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadSpec {
    /// Jobs in fio's words, as `mjolnir_workload::synthetic` has them. A job that says no `size`
    /// uses the whole drive; one that says no end goes on until the measurement ends.
    pub synthetic: Option<WorkloadSpec>,
    /// A shipped recording by its name, or the path of a trace, of any format that `mjolnir trace`
    /// reads.
    pub trace: Option<String>,
    /// How the trace is brought to the drive.
    pub fit: FitSpec,
    /// Skip bad records of the trace and count them, instead of stopping.
    pub skip_bad: bool,
    /// Begin the trace's first pass at a request that the seed chooses: what lies before it comes
    /// with the next pass (`fit.passes`). So seeds tell how far a figure depends on the beginning.
    pub start_by_seed: bool,
}

/// What was done to the drive before the measured run. It takes no virtual time, and always ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionSpec {
    /// Share of the drive's bytes that is written once, in order: 0 to 1.
    pub fill: f64,
    /// How often as many blocks as were filled are overwritten then.
    pub overwrites: f64,
    /// Which: `uniform`, `sequential`, or `hotcold:WRITES/SPACE` (percentages).
    pub pattern: String,
    /// Blocks in each overwrite.
    pub request_blocks: u64,
    /// Then the workload itself, from its beginning and in no time, until it wrote this many times
    /// as many blocks as the drive has. The measured run begins it anew, jobs with other draws.
    pub workload: f64,
    /// Begin with the state in this file instead.
    pub restore: Option<String>,
    /// Keep the state that this came to in a file.
    pub save: Option<String>,
}

impl Default for PreconditionSpec {
    fn default() -> Self {
        PreconditionSpec {
            fill: 0.0,
            overwrites: 0.0,
            pattern: "uniform".to_owned(),
            request_blocks: 1,
            workload: 0.0,
            restore: None,
            save: None,
        }
    }
}

/// What is measured. The first limit that is reached ends the run; without any, the workload does.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureSpec {
    /// At most so many requests.
    pub requests: Option<u64>,
    /// At most so many blocks of 4 KiB written by the host.
    pub blocks: Option<u64>,
    /// At most so many times as many blocks written by the host as the drive has.
    pub drive_writes: Option<f64>,
    /// At most so many seconds of virtual time.
    pub seconds: Option<f64>,
    /// Whether operations take time; without, only what is written where is measured, much faster. The
    /// engine then keeps few checksums, and moves data in shorter groups, to save memory.
    pub timed: bool,
    /// Check every read against what was written last.
    pub oracle: bool,
    /// Points of the courses over time, or over blocks written where nothing takes time.
    pub points: usize,
    /// Write a line for each request to this file: arrival, completion, operation, offset, length.
    pub log: Option<String>,
}

impl MeasureSpec {
    /// Refuses limits that end a run before it begins.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        let whole = [("requests", self.requests), ("blocks", self.blocks)];
        if let Some((name, _)) = whole.iter().find(|(_, most)| *most == Some(0)) {
            return Err(format!("measure.{name}: write at least 1"));
        }
        let parts = [("drive_writes", self.drive_writes), ("seconds", self.seconds)];
        let is_above_0 = |most: f64| most.is_finite() && most > 0.0;
        if let Some((name, _)) =
            parts.iter().find(|(_, most)| most.is_some_and(|at| !is_above_0(at)))
        {
            return Err(format!("measure.{name}: write a finite number above 0"));
        }
        if self.seconds.is_some() && !self.timed {
            return Err("measure.seconds: nothing takes time with measure.timed = false; write \
                        requests, blocks or drive_writes"
                .to_owned());
        }
        Ok(())
    }

    /// The most blocks that are written to a drive of so many bytes: at least one.
    pub(super) fn blocks_most(&self, drive_bytes: u64) -> u64 {
        let drive_blocks = (drive_bytes / BLOCK_SIZE) as f64;
        let times = self.drive_writes.map(|times| ((times * drive_blocks) as u64).max(1));
        self.blocks.into_iter().chain(times).min().unwrap_or(u64::MAX)
    }

    /// The most nanoseconds that it takes: at least one.
    pub(super) fn ns_most(&self) -> u64 {
        self.seconds.map_or(u64::MAX, |seconds| ((seconds * 1e9) as u64).max(1))
    }

    /// What ends the run, if not the workload's own end.
    #[must_use]
    pub fn limit(&self) -> Limit {
        if self.requests.is_some() || self.seconds.is_some() {
            Limit::Requests
        } else if self.blocks.is_some() || self.drive_writes.is_some() {
            Limit::Writes { timed: self.timed }
        } else {
            Limit::None
        }
    }
}

impl Default for MeasureSpec {
    fn default() -> Self {
        MeasureSpec {
            requests: None,
            blocks: None,
            drive_writes: None,
            seconds: None,
            timed: true,
            oracle: false,
            points: 200,
            log: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mjolnir_experiment::parse_configuration;

    /// The fields that a table has, as what refuses a wrong one lists them.
    fn fields<T: serde::de::DeserializeOwned>() -> Vec<String> {
        let wrong: toml::Table = "no-such-field = 1".parse().unwrap();
        let Err(error) = wrong.try_into::<T>() else { panic!("it takes any field") };
        let (_, known) = error.message().split_once("expected ").expect("it names them");
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_reference_has_every_key() {
        let text = include_str!("../../../docs/reference/experiments.md");
        for (table, keys) in [
            ("device", fields::<DeviceSpec>()),
            ("drive", fields::<DriveSpec>()),
            ("engine", fields::<EngineSpec>()),
            ("workload", fields::<LoadSpec>()),
            ("workload.fit", fields::<FitSpec>()),
            ("precondition", fields::<PreconditionSpec>()),
            ("measure", fields::<MeasureSpec>()),
        ] {
            assert!(keys.len() > 3, "{table}: {keys:?}");
            for key in keys.iter().filter(|key| *key != "fit") {
                assert!(text.contains(&format!("`{table}.{key}`")), "no {table}.{key}");
            }
        }
    }

    #[test]
    fn a_value_of_another_sort_is_told_in_words_of_the_file() {
        let refused = |text: &str| {
            let text = format!("device.file = \"970pro\"\n{text}");
            let table: toml::Table = text.parse().unwrap();
            parse_configuration::<Study>(&table).unwrap_err()
        };
        for (text, parts) in [
            ("workload.fit = true", ["workload.fit: ", "write a table with `volumes`"]),
            ("workload = 3", ["workload: ", "write a table"]),
            ("workload = {}\ndrive.bytes = true", ["drive.bytes: ", "\"64K\""]),
            ("workload = {}\nengine.cores = \"two\"", ["engine.cores: ", "write a whole number"]),
            ("workload = {}\nengine.victim = 1", ["engine.victim: ", "write a text"]),
        ] {
            let why = refused(text);
            assert!(!why.contains("struct") && !why.contains("enum"), "{why}");
            for part in parts {
                assert!(why.contains(part), "no {part:?} in {why:?}");
            }
        }
    }
}
