//! How the marking scan gains by threads: figure 3 of the paper. The store is in memory that keeps
//! no payload, so that what is scanned can be large.

use mjolnir_device::Runtime as _;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_experiment::{Outcome, parse_configuration};
use mjolnir_host::HostRuntime;
use mjolnir_study::{Data, DataSpec, Figures, collect_everything};
use mjolnir_units::BLOCK_SIZE;
use serde::Deserialize;

use crate::by_clock::Planned;
use crate::memory::ThinDevice;
use crate::place::{cores, machine};
use crate::stopped;
use crate::threads::Threads;

/// The most bytes that addresses are there for.
const DATA_BYTES_MAX: u64 = 4 << 40;
/// Blocks that a snapshot may cost whose leaves are its own.
const BLOCKS_ANEW: u64 = 64;
/// The most threads. Each number from 1 on is tried.
const THREADS_MAX: usize = 1024;
/// The most scans with each.
const ROUNDS_MAX: usize = 1000;
/// The part of a run that writing is reckoned as, for progress.
const WRITE_PART: f64 = 0.7;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    data: DataSpec,
    /// Scans with each number of threads; the fastest counts, since whatever else is at work on the
    /// machine only makes them slower.
    #[serde(default = "five")]
    rounds: usize,
    /// The most threads; as many as there are cores if not said.
    threads_max: Option<usize>,
}

fn five() -> usize {
    5
}

/// `kind = "machine-scan"`: writes data to a store in memory, then marks with 1 thread to many.
pub(crate) struct Scan {
    data: Data,
    zones: u32,
    zone_blocks: u64,
    rounds: usize,
    threads_max: usize,
}

type ThinEngine = Engine<ThinDevice, Threads>;

impl Planned for Scan {
    const NAME: &'static str = "machine-scan";

    fn new(configuration: &toml::Table, _: u64) -> Result<Self, String> {
        let Configuration { data: spec, rounds, threads_max } = parse_configuration(configuration)?;
        // Before a snapshot two blocks of each leaf may be written, and then the leaf's image.
        let anew = if spec.diverge { spec.snapshots.saturating_mul(BLOCKS_ANEW) } else { 0 };
        let blocks = (spec.bytes.get("data.bytes")? / BLOCK_SIZE).saturating_add(anew);
        if blocks > DATA_BYTES_MAX / BLOCK_SIZE {
            return Err("data: that is more than there are addresses for".to_owned());
        }
        let data = Data::new(spec, DATA_BYTES_MAX)?;
        let threads_max = threads_max.unwrap_or_else(|| cores().min(THREADS_MAX));
        if rounds == 0 || threads_max == 0 {
            return Err("rounds, threads_max: write at least 1".to_owned());
        }
        if threads_max > THREADS_MAX {
            return Err(format!("threads_max: write at most {THREADS_MAX}"));
        }
        if rounds > ROUNDS_MAX {
            return Err(format!("rounds: write at most {ROUNDS_MAX}"));
        }
        let zone_blocks = (blocks / 64).clamp(256, 32_768);
        // Twice: the map.
        let zones = 2 * (blocks / zone_blocks) as u32 + 64;
        Ok(Scan { data, zones, zone_blocks, rounds, threads_max })
    }

    async fn play(
        self,
        runtime: HostRuntime,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let words = |error: mjolnir_store::Error| format!("engine: {error}");
        let device = ThinDevice::of_zones(self.zones, self.zone_blocks);
        let threads = Threads::one(runtime);
        let format = FormatOptions::default();
        Engine::format(device.clone(), threads.clone(), format).await.map_err(words)?;
        let engine = Engine::open(device, threads.clone(), options()).await.map_err(words)?;
        let zeroes = mjolnir_device::AlignedBuf::zeroed(1 << 20).freeze();
        let payload = |blocks: usize| zeroes.slice(..blocks * BLOCK_SIZE as usize);
        let turn = async |share: f64| match progress(WRITE_PART * share) {
            true => Ok(()),
            false => Err(stopped()),
        };
        self.data.write(&engine, payload, turn).await?;
        let mut seconds = vec![Vec::new(); self.threads_max];
        let all = (self.rounds * self.threads_max) as f64;
        for round in 0..self.rounds {
            for (before, seconds) in seconds.iter_mut().enumerate() {
                let share = (round * self.threads_max + before) as f64 / all;
                if !progress(WRITE_PART + (1.0 - WRITE_PART) * share) {
                    return Err(stopped());
                }
                threads.set(before + 1);
                if round == 0 || before > 0 {
                    // The first one brings the map back, and new threads may be on one processor in the beginning.
                    scan(&engine, &threads).await?;
                }
                seconds.push(scan(&engine, &threads).await?.seconds);
            }
        }
        threads.set(1);
        let last = scan(&engine, &threads).await?;
        let stats = engine.stats();
        engine.close().await.map_err(words)?;
        let mut figures = Figures::default();
        let best: Vec<f64> = seconds.into_iter().map(fastest).collect();
        let each = |of: &dyn Fn(f64) -> f64| {
            (1u32..).map(f64::from).zip(best.iter().map(|seconds| of(*seconds))).collect()
        };
        let (mappings, one) = (last.mappings, best[0]);
        figures.course("scan_rate", "threads", "mappings_per_s", each(&|s| mappings / s));
        figures.course("scan_speed_up", "threads", "times", each(&|s| one / s));
        figures.course("scan_time", "threads", "ms", each(&|s| s * 1e3));
        let (most, together) = (self.threads_max as f64, best[self.threads_max - 1]);
        for (name, value) in [
            ("mappings", mappings),
            ("map_leaves", stats.map_leaves as f64),
            ("map_bytes", stats.map_bytes as f64),
            ("threads_max", most),
            ("scan_1_thread_ms", one * 1e3),
            ("scan_all_threads_ms", together * 1e3),
            ("mappings_per_s_1_thread", mappings / one),
            ("mappings_per_s_all_threads", mappings / together),
            ("cpu_ns_per_mapping", last.cpu_ns / mappings.max(1.0)),
            ("speed_up", one / together),
            ("speed_up_per_thread", one / together / most),
        ] {
            figures.number(name, value);
        }
        figures.notes.push(format!("by the clock, the store in memory; {}", machine()));
        Ok(figures.into_outcome())
    }
}

/// Nothing is a candidate, so that a collection is a mark and no more.
fn options() -> OpenOptions {
    let mut options = collect_everything();
    options.reclaim.candidate_threshold = 0.0;
    options
}

/// One whole mark.
struct Scanned {
    seconds: f64,
    mappings: f64,
    cpu_ns: f64,
}

async fn scan(engine: &ThinEngine, threads: &Threads) -> Result<Scanned, String> {
    let (before, begun) = (engine.stats(), threads.now());
    engine.collect().await.map_err(|error| format!("engine: {error}"))?;
    let took = threads.now().since(begun);
    let after = engine.stats();
    if after.moved_bytes > before.moved_bytes || after.reclaim_cycles == before.reclaim_cycles {
        return Err("the collection was not a mark and no more".to_owned());
    }
    let marks = (after.reclaim_cycles - before.reclaim_cycles) as f64;
    Ok(Scanned {
        seconds: took.as_secs_f64() / marks,
        mappings: (after.mappings_scanned - before.mappings_scanned) as f64 / marks,
        cpu_ns: (after.scan_cpu_ns - before.scan_cpu_ns) as f64 / marks,
    })
}

fn fastest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_or_rounds_than_any_machine_would_end_are_refused() {
        let scan = |more: &str| {
            let text = format!("{more}\n[data]\nbytes = \"1M\"\nwrite_bytes = \"4k\"");
            Scan::new(&text.parse().unwrap(), 1).err()
        };
        assert_eq!(scan("threads_max = 1024\nrounds = 1000"), None);
        for (more, part) in [
            ("threads_max = 1025", "threads_max: write at most 1024"),
            ("threads_max = 9223372036854775807", "threads_max: write at most 1024"),
            ("rounds = 1001", "rounds: write at most 1000"),
        ] {
            assert_eq!(scan(more).as_deref(), Some(part));
        }
        assert!(scan("threads_max = 0").is_some() && scan("rounds = 0").is_some());
    }
}
