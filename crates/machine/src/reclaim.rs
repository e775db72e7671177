//! What it costs to reclaim data that is wholly live, on a real file: the paper's tables 2 and 3.

use mjolnir_device::Runtime as _;
use mjolnir_engine::ReclaimOptions;
use mjolnir_experiment::{Outcome, parse_configuration};
use mjolnir_host::HostRuntime;
use mjolnir_study::{Data, DataSpec, Figures, check_read_plan, collect_everything};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use crate::by_clock::Planned;
use crate::place::{MachineSpec, Place, payload};
use crate::stopped;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    machine: MachineSpec,
    data: DataSpec,
    #[serde(default)]
    engine: EngineSpec,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EngineSpec {
    #[serde(deserialize_with = "mjolnir_policy::text_or_table")]
    read_plan: String,
}

impl Default for EngineSpec {
    fn default() -> Self {
        EngineSpec { read_plan: ReclaimOptions::default().read_plan }
    }
}

/// `kind = "machine-reclaim-cost"`: as `reclaim-cost`, on a real file.
pub(crate) struct ReclaimCost {
    place: Place,
    data: Data,
    read_plan: String,
}

impl Planned for ReclaimCost {
    const NAME: &'static str = "machine-reclaim-cost";

    fn new(configuration: &toml::Table, _: u64) -> Result<Self, String> {
        let Configuration { machine, data, engine } = parse_configuration(configuration)?;
        let place = Place::new(&machine)?;
        check_read_plan(&engine.read_plan)?;
        // All of it is moved.
        let data = Data::new(data, place.bytes / 2)?;
        Ok(ReclaimCost { place, data, read_plan: engine.read_plan })
    }

    async fn play(
        self,
        runtime: HostRuntime,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let words = |error: mjolnir_store::Error| format!("engine: {error}");
        let mut options = collect_everything();
        options.reclaim.read_plan.clone_from(&self.read_plan);
        let engine = self.place.store(options, &runtime).await?;
        let turn = async |share: f64| match progress(0.5 * share) {
            true => Ok(()),
            false => Err(stopped()),
        };
        self.data.write(&engine, payload(), turn).await?;
        let before = engine.stats();
        let (begun, processor) = (runtime.now(), processor_s());
        engine.collect().await.map_err(words)?;
        let took = runtime.now().since(begun);
        let processor = processor_s() - processor;
        let after = engine.stats();
        engine.close().await.map_err(words)?;
        let mut figures = Figures::default();
        figures.reclaim((&before, &after), took.as_nanos() as u64);
        figures.number("cpu_ms", processor * 1e3);
        figures.notes.push(self.place.note());
        Ok(figures.into_outcome())
    }
}

/// Processor time of all threads so far, in seconds.
pub fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_plan_that_there_is_not_is_refused_before_anything_is_written() {
        let configuration = |read_plan: &str| {
            let text = format!(
                "machine = {{ bytes = \"64M\", segment_bytes = \"1M\" }}
                data = {{ bytes = \"8M\", write_bytes = \"4K\" }}
                engine.read_plan = {read_plan:?}"
            );
            toml::from_str(&text).unwrap()
        };
        assert!(ReclaimCost::new(&configuration("near"), 1).is_ok());
        let refused = ReclaimCost::new(&configuration("neer"), 1).err().unwrap();
        assert!(refused.starts_with("engine.read_plan: "), "{refused}");
        assert!(refused.contains("\"near\" comes nearest"), "{refused}");
    }
}
