//! What it costs to reclaim data that is wholly live: the paper's tables 2 and 3.
//!
//! A drive is filled in no time; then everything on it is collected, and that takes virtual time:
//! the flash's, and the processor's for marking. Updating the map takes none.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use mjolnir_device::Runtime as _;
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, ReclaimOptions};
use mjolnir_experiment::{Kind, Outcome, parse_configuration};
use mjolnir_flash::nand::Nand;
use mjolnir_store::report::Stats;
use mjolnir_vtime::{Jobs, SimRuntime};
use serde::Deserialize;

use super::data::{Data, DataSpec};
use super::drive::DriveId;
use super::drive::SimDrive;
use super::drive::layout::Layout;
use super::drive::payload;
use super::hardware;
use super::measured::Figures;
use super::spec::{DeviceSpec, EngineSpec, check_read_plan};
use super::world::{explain, simulation};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    device: DeviceSpec,
    /// Planes of a zone; as in a study.
    zone_planes: Option<u32>,
    #[serde(default)]
    engine: Costs,
    data: DataSpec,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Costs {
    scan_ns_per_mapping: f64,
    cores: usize,
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    read_plan: String,
}

impl Default for Costs {
    fn default() -> Self {
        let EngineSpec { scan_ns_per_mapping, cores, read_plan, .. } = EngineSpec::default();
        Costs { scan_ns_per_mapping, cores, read_plan }
    }
}

/// A configuration that was checked.
struct Plan {
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
        if !device.ftl.is_empty() {
            return Err("device.ftl: no host is offered anything here; leave it out".to_owned());
        }
        let layout = Layout::new(&hardware.nand, zone_planes, 0)?;
        // All of it is moved.
        let data = Data::new(data, u64::from(layout.zones) * layout.zone_bytes() / 2)?;
        if !(0.0..=1e9).contains(&costs.scan_ns_per_mapping) || costs.cores == 0 {
            return Err(
                "engine.scan_ns_per_mapping: write a number from 0 to 1e9, and at least 1 \
                        in engine.cores"
                    .to_owned(),
            );
        }
        check_read_plan(&costs.read_plan)?;
        Ok(Plan { data, costs, layout, hardware })
    }
}

/// How an engine is set whose reclaim is measured: it runs when asked, and takes all there is,
/// wholly live or not.
pub fn collect_everything() -> OpenOptions {
    OpenOptions {
        memory_bytes: 64 << 30,
        checkpoint_bytes: 8 << 30,
        reclaim: ReclaimOptions {
            enabled: false,
            candidate_threshold: 1.0,
            candidates_max: 1 << 20,
            ..ReclaimOptions::default()
        },
        ..OpenOptions::default()
    }
}

async fn play(plan: Plan, runtime: SimRuntime, told: Rc<Cell<f64>>) -> Result<Outcome, String> {
    let device = &plan.hardware;
    let nand = Nand::new(device.nand.clone(), device.timing.clone(), device.faults.clone(), 0);
    let overhead_ns = device.controller.read_overhead_ns;
    let layout = plan.layout.clone();
    let drive = SimDrive::new(
        DriveId::default(),
        runtime.clone(),
        &device.name,
        layout,
        nand,
        overhead_ns,
        false,
    );
    let words = |error: mjolnir_store::Error| format!("engine: {error}");
    let format = FormatOptions::default();
    Engine::format(drive.clone(), runtime.clone(), format).await.map_err(words)?;
    let mut options = collect_everything();
    options.reclaim.read_plan.clone_from(&plan.costs.read_plan);
    let engine = Engine::open(drive.clone(), runtime.clone(), options).await.map_err(words)?;
    drive.forget_map();
    let turn = async |share: f64| {
        told.set(0.6 * share);
        runtime.note_progress();
        runtime.give_way().await;
        Ok(())
    };
    plan.data.write(&engine, payload::plain, turn).await?;
    let (before, begun_ns) = (engine.stats(), runtime.now().0);
    runtime.set_timed(true);
    engine.collect().await.map_err(words)?;
    runtime.set_timed(false);
    let (after, ended_ns) = (engine.stats(), runtime.now().0);
    let mut figures = Figures::default();
    figures.reclaim((&before, &after), ended_ns - begun_ns);
    figures.number("cpu_scan_ns_per_mapping", plan.costs.scan_ns_per_mapping);
    Ok(figures.into_outcome())
}

impl Figures {
    /// What it took to reclaim everything, by what the engine counted before and after.
    pub fn reclaim(&mut self, (before, after): (&Stats, &Stats), took_ns: u64) {
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
            ("segment_bytes", before.segment_bytes as f64),
        ] {
            self.number(name, value);
        }
        let (segments, megabytes) = (difference(|s| s.segments_reclaimed), moved / mib);
        self.notes.push(match segments > 0.0 {
            true => format!("reclaim ran: {segments} segments given up, {megabytes:.0} MiB moved"),
            false => "reclaim did not run: the data fill no segment".to_owned(),
        });
    }
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

    fn inputs(&self, configuration: &toml::Table) -> Vec<PathBuf> {
        let Ok(known) = parse_configuration::<Configuration>(configuration) else {
            return Vec::new();
        };
        hardware::input(&known.device).into_iter().collect()
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let plan = Plan::new(configuration)?;
        let Costs { scan_ns_per_mapping, cores, .. } = plan.costs;
        let sim = simulation(seed, Jobs::BySteps { step_ns: scan_ns_per_mapping, cores });
        let told = Rc::new(Cell::new(0.0));
        let done = told.clone();
        let play = play(plan, sim.world(), told);
        sim.run_watched(play, &mut || progress(done.get())).map_err(explain)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_file_of_ones_own_is_read_and_a_shipped_one_is_not() {
        for (device, inputs) in [("my.toml", vec![PathBuf::from("my.toml")]), ("970pro", vec![])] {
            let text = format!(
                "device.file = {device:?}\ndata = {{ bytes = \"1M\", write_bytes = \"4K\" }}"
            );
            assert_eq!(ReclaimCost.inputs(&toml::from_str(&text).unwrap()), inputs, "{device}");
        }
    }
}
