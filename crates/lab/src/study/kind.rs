//! Studies as a sort of run that experiments can ask for.

use crate::experiment::{Kind, Outcome};
use crate::study::{self, Study};

/// `kind = "simulate"`: a [`Study`].
pub struct Simulate;

fn parse(configuration: &toml::Table) -> Result<Study, String> {
    configuration.clone().try_into().map_err(|error: toml::de::Error| {
        let error = error.to_string();
        format!("configuration: {}", error.trim_end().replace('\n', " "))
    })
}

impl Kind for Simulate {
    fn name(&self) -> &'static str {
        "simulate"
    }

    fn check(&self, configuration: &toml::Table) -> Result<(), String> {
        study::check(&parse(configuration)?)
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        Ok(study::run(&parse(configuration)?, seed, progress)?.outcome)
    }
}
