//! Studies as a sort of run that experiments can ask for.

use std::path::PathBuf;

use mjolnir_experiment::{Kind, Outcome, parse_configuration};

use crate::recordings;
use crate::{Study, check, hardware, run};

/// `kind = "simulate"`: a [`Study`].
pub struct Simulate;

impl Kind for Simulate {
    fn name(&self) -> &'static str {
        "simulate"
    }

    fn check(&self, configuration: &toml::Table) -> Result<(), String> {
        check(&parse_configuration(configuration)?)
    }

    fn inputs(&self, configuration: &toml::Table) -> Vec<PathBuf> {
        let Ok(study) = parse_configuration::<Study>(configuration) else { return Vec::new() };
        let device = hardware::input(&study.device);
        let trace = study.workload.trace.as_deref().and_then(recordings::path);
        let restore = study.precondition.restore;
        let files = [device, trace, restore.map(PathBuf::from)];
        files.into_iter().flatten().collect()
    }

    fn outputs(&self, configuration: &toml::Table) -> Vec<&'static str> {
        let Ok(study) = parse_configuration::<Study>(configuration) else { return Vec::new() };
        let log = study.measure.log.map(|_| "measure.log");
        let save = study.precondition.save.map(|_| "precondition.save");
        log.into_iter().chain(save).collect()
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let study: Study = parse_configuration(configuration)?;
        Ok(run(&study, seed, progress)?.outcome)
    }
}
