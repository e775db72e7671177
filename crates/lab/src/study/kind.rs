//! Studies as a sort of run that experiments can ask for.

use crate::experiment::{Kind, Outcome, parse_configuration};
use crate::study::{self, Study};

/// `kind = "simulate"`: a [`Study`].
pub struct Simulate;

impl Kind for Simulate {
    fn name(&self) -> &'static str {
        "simulate"
    }

    fn check(&self, configuration: &toml::Table) -> Result<(), String> {
        study::check(&parse_configuration(configuration)?)
    }

    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let study: Study = parse_configuration(configuration)?;
        Ok(study::run(&study, seed, progress)?.outcome)
    }
}
