//! What a run measured, and the contract between experiments and the sorts of run they ask for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one run measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Single figures by name, units in the name's last word: `waf`, `write_p99_us`, `map_bytes`.
    pub numbers: BTreeMap<String, f64>,
    /// Courses over something, by name.
    pub series: BTreeMap<String, Series>,
    /// Sentences a reader must know: whether reclaim ran and if not why, what was scaled or skipped.
    pub notes: Vec<String>,
}

/// A course of one quantity over another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What the first of each pair is, with its unit: `time_s`.
    pub x: String,
    /// What the second of each pair is, with its unit: `bandwidth_mib_per_s`.
    pub y: String,
    /// The pairs, in order.
    pub points: Vec<(f64, f64)>,
}

/// A sort of run that experiments can ask for (`kind = "…"` in the file).
pub trait Kind: Sync {
    /// The word that files use.
    fn name(&self) -> &'static str;

    /// Refuses what cannot be run, with one sentence that names the key (and the nearest right
    /// word).
    fn check(&self, configuration: &toml::Table) -> Result<(), String>;

    /// The files that a run reads: their contents are part of what its result is of.
    fn inputs(&self, configuration: &toml::Table) -> Vec<PathBuf> {
        let _ = configuration;
        Vec::new()
    }

    /// The keys that name files which a run writes besides its outcome. Such a run is always made,
    /// and only where it is the only one of its experiment: others would write the same files.
    fn outputs(&self, configuration: &toml::Table) -> Vec<&'static str> {
        let _ = configuration;
        Vec::new()
    }

    /// Whether it measures the real world by the real clock. Then figures differ from run to run,
    /// and it is run alone, after all others.
    fn by_clock(&self) -> bool {
        false
    }

    /// A pure function of configuration, seed and inputs, unless [`by_clock`](Self::by_clock). `progress` is told the share done, 0 to 1, and
    /// answers whether to go on; a run that is told not to answers with an error soon.
    fn run(
        &self,
        configuration: &toml::Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String>;
}
