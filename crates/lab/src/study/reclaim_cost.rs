//! What it costs to reclaim data that is wholly live: the paper's tables 2 and 3.
//!
//! A drive is filled in no time; then everything on it is collected, and that takes virtual time:
//! the flash's, and the processor's for marking. Updating the map takes none.

use mjolnir_device::Runtime as _;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, ReclaimOptions, Stats};
use mjolnir_flash::nand::Nand;
use mjolnir_store::{Durability, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};
use serde::Deserialize;

use super::drive::SimDrive;
use super::hardware;
use super::layout::Layout;
use super::measured::Figures;
use super::payload::{self, PLAIN_BLOCKS};
use super::spec::{Bytes, DeviceSpec, EngineSpec};
use super::world::{Prices, World, WorldRuntime};
use crate::experiment::{Kind, Outcome, parse_configuration};

/// The volume that is filled.
const VOLUME: &str = "data";
/// Writes between two looks at whether to go on.
const WRITES_A_LOOK: u64 = 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    device: DeviceSpec,
    /// Planes of a zone; as in a study.
    zone_planes: Option<u32>,
    #[serde(default)]
    engine: Costs,
    data: Data,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Costs {
    scan_ns_per_mapping: f64,
    cores: usize,
    read_plan: String,
}

impl Default for Costs {
    fn default() -> Self {
        let EngineSpec { scan_ns_per_mapping, cores, read_plan, .. } = EngineSpec::default();
        Costs { scan_ns_per_mapping, cores, read_plan }
    }
}

/// What is on the drive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    bytes: Bytes,
    /// Bytes of each write.
    write_bytes: Bytes,
    /// Writes are scattered, so that each is a mapping of its own; else they follow one another.
    #[serde(default)]
    scattered: bool,
    #[serde(default)]
    snapshots: u64,
    /// Before each snapshot a block of every leaf of the map is written anew, so that snapshots
    /// share no leaf.
    #[serde(default)]
    diverge: bool,
}

/// A configuration that was checked.
struct Plan {
    blocks: u64,
    write_blocks: u64,
    data: Data,
    costs: Costs,
    layout: Layout,
    hardware: mjolnir_flash::Device,
}

impl Plan {
    fn new(configuration: &toml::Table) -> Result<Self, String> {
        let Configuration { device, zone_planes, engine: costs, data } =
            parse_configuration(configuration)?;
        let hardware = hardware::device(&device, false)?;
        let layout = Layout::new(&hardware.nand, zone_planes)?;
        let (bytes, write) =
            (data.bytes.get("data.bytes")?, data.write_bytes.get("data.write_bytes")?);
        let write_max = PLAIN_BLOCKS as u64 * BLOCK_SIZE;
        if !(BLOCK_SIZE..=write_max).contains(&write) || !write.is_multiple_of(BLOCK_SIZE) {
            return Err(format!(
                "data.write_bytes: write a multiple of {BLOCK_SIZE} up to {write_max}"
            ));
        }
        let physical = u64::from(layout.zones) * layout.zone_bytes();
        if bytes < write || bytes > physical / 2 {
            return Err(format!(
                "data.bytes: write from data.write_bytes to half of the NAND, which has {physical} \
                 bytes: all of it is moved"
            ));
        }
        if !(0.0..=1e9).contains(&costs.scan_ns_per_mapping) || costs.cores == 0 {
            return Err(
                "engine.scan_ns_per_mapping: write a number from 0 to 1e9, and at least 1 \
                        in engine.cores"
                    .to_owned(),
            );
        }
        let (blocks, write_blocks) = (bytes / BLOCK_SIZE, write / BLOCK_SIZE);
        Ok(Plan { blocks, write_blocks, data, costs, layout, hardware })
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            memory_bytes: 64 << 30,
            checkpoint_bytes: 8 << 30,
            reclaim: ReclaimOptions {
                enabled: false,
                candidate_threshold: 1.0,
                candidates_max: 1 << 20,
                read_plan: self.costs.read_plan.clone(),
                ..ReclaimOptions::default()
            },
            ..OpenOptions::default()
        }
    }
}

/// The order of writes: in sequence, or each far from the one before.
fn order(writes: u64, scattered: bool) -> impl Iterator<Item = u64> {
    let common = |a: u64, b: u64| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // Near the golden section, and without a common divisor: every place once.
    let golden = (writes as f64 * 0.618) as u64;
    let step = (golden.max(1)..).find(|step| common(*step, writes) == 1).unwrap_or(1);
    let step = if scattered { step } else { 1 };
    (0..writes).map(move |at| (u128::from(at) * u128::from(step) % u128::from(writes)) as u64)
}

type CostEngine = Engine<SimDrive, WorldRuntime>;

async fn fill(
    plan: &Plan,
    engine: &CostEngine,
    runtime: &WorldRuntime,
    told: &std::cell::Cell<f64>,
) -> Result<TreeId, mjolnir_store::Error> {
    let volume = engine.create_volume(VOLUME, plan.blocks * BLOCK_SIZE).await?.id;
    let writes = plan.blocks / plan.write_blocks;
    let length = plan.write_blocks;
    for (number, at) in (0..).zip(order(writes, plan.data.scattered)) {
        let data = payload::plain(length as usize);
        engine.write(volume, at * length * BLOCK_SIZE, data, Durability::Buffered).await?;
        if number % WRITES_A_LOOK == 0 {
            told.set(0.5 * number as f64 / writes as f64);
            runtime.note_progress();
            runtime.give_way().await;
        }
    }
    let leaves = engine.stats().map_leaves.max(1);
    let places = (2 * leaves).min(plan.blocks);
    for number in 0..plan.data.snapshots {
        if plan.data.diverge {
            for place in 0..places {
                let block = place * plan.blocks / places;
                let data = payload::plain(1);
                engine.write(volume, block * BLOCK_SIZE, data, Durability::Buffered).await?;
            }
        }
        engine.create_snapshot(VOLUME, &number.to_string()).await?;
        runtime.note_progress();
        runtime.give_way().await;
    }
    engine.checkpoint().await?;
    told.set(0.6);
    Ok(volume)
}

async fn play(
    plan: Plan,
    runtime: WorldRuntime,
    told: std::rc::Rc<std::cell::Cell<f64>>,
) -> Result<Outcome, String> {
    let device = &plan.hardware;
    let nand = Nand::new(device.nand.clone(), device.timing.clone(), device.faults.clone(), 0);
    let overhead_ns = device.controller.read_overhead_ns;
    let layout = plan.layout.clone();
    let drive = SimDrive::new(runtime.clone(), &device.name, layout, nand, overhead_ns, false);
    let words = |error: mjolnir_store::Error| format!("engine: {error}");
    let format = FormatOptions::default();
    Engine::format(drive.clone(), runtime.clone(), format).await.map_err(words)?;
    let engine =
        Engine::open(drive.clone(), runtime.clone(), plan.options()).await.map_err(words)?;
    drive.forget_map();
    fill(&plan, &engine, &runtime, &told).await.map_err(words)?;
    let (before, begun_ns) = (engine.stats(), runtime.now().0);
    runtime.set_timed(true);
    engine.collect().await.map_err(words)?;
    runtime.set_timed(false);
    let (after, ended_ns) = (engine.stats(), runtime.now().0);
    let mut figures = Figures::default();
    tell(&plan, (&before, &after), ended_ns - begun_ns, &mut figures);
    Ok(figures.into_outcome())
}

fn tell(plan: &Plan, (before, after): (&Stats, &Stats), took_ns: u64, figures: &mut Figures) {
    let difference = |of: fn(&Stats) -> u64| (of(after) - of(before)) as f64;
    let (cycles, scanned) =
        (difference(|s| s.reclaim_cycles).max(1.0), difference(|s| s.mappings_scanned));
    // Of one core: what more cores share out takes less time than that.
    let scan_ms = difference(|s| s.scan_cpu_ns) / 1e6;
    let took_ms = took_ns as f64 / 1e6;
    let moved = difference(|s| s.moved_bytes);
    let mib = f64::from(1 << 20);
    for (name, value) in [
        ("reclaim_ms", took_ms),
        ("mappings", (scanned / cycles).round()),
        ("mappings_scanned", scanned),
        ("scans", cycles),
        ("scan_cpu_ms", scan_ms),
        ("one_scan_ms", scan_ms / cycles),
        ("beside_scans_ms", (took_ms - scan_ms).max(0.0)),
        ("moved_mib", moved / mib),
        ("moved_mib_per_s", moved / mib / (took_ms / 1e3).max(1e-9)),
        ("segments", difference(|s| s.segments_reclaimed)),
        ("map_bytes", before.map_bytes as f64),
        ("map_leaves", before.map_leaves as f64),
        ("cpu_scan_ns_per_mapping", plan.costs.scan_ns_per_mapping),
        ("segment_bytes", before.segment_bytes as f64),
    ] {
        figures.number(name, value);
    }
    let (segments, megabytes) = (difference(|s| s.segments_reclaimed), moved / mib);
    figures.notes.push(match segments > 0.0 {
        true => format!("reclaim ran: {segments} segments given up, {megabytes:.0} MiB moved"),
        false => "reclaim did not run: the data fill no segment".to_owned(),
    });
}

/// `kind = "reclaim-cost"`: fills a drive, then collects all that is on it.
pub struct ReclaimCost;

impl Kind for ReclaimCost {
    fn name(&self) -> &'static str {
        "reclaim-cost"
    }

    fn check(&self, configuration: &toml::Table) -> Result<(), String> {
        Plan::new(configuration).map(drop)
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let plan = Plan::new(configuration)?;
        let Costs { scan_ns_per_mapping, cores, .. } = plan.costs;
        let world = World::new(seed, Prices { scan_ns_per_mapping, cores });
        let told = std::rc::Rc::new(std::cell::Cell::new(0.0));
        let done = told.clone();
        let play = play(plan, world.runtime(), told);
        world.run(play, &mut || progress(done.get()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_writes_go_to_every_place_once_and_never_to_the_next() {
        for writes in [7u64, 100, 3_641, 4_096] {
            let places: Vec<u64> = order(writes, true).collect();
            assert!(places.windows(2).all(|pair| pair[1] != pair[0] + 1), "{writes}");
            let mut sorted = places;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..writes).collect::<Vec<_>>());
        }
    }
}
