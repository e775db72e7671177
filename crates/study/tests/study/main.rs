//! Studies: the shipping engine, and a plain FTL, on simulated flash.

mod closed_forms;
mod engine;
mod failures;
mod page_mapped;
mod together;

use mjolnir_study::{Measured, Study};

/// A study from TOML.
pub fn study(text: &str) -> Study {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a study to its end.
pub fn run(text: &str) -> Measured {
    try_run(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a study, which may fail.
pub fn try_run(text: &str) -> Result<Measured, String> {
    mjolnir_study::run(&study(text), 1, &mut |_| true)
}

/// A device of 64 MiB in erase blocks of 256 KiB, behind an engine with zones of 1 MiB, of which
/// the host is offered 48 MiB.
pub const SMALL: &str = r#"
[device]
file = "disksim-ssd"
nand = { channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }
[drive]
bytes = "48M"
zone_planes = 2
"#;

/// A figure of a study.
pub fn number(measured: &Measured, name: &str) -> f64 {
    measured.outcome.numbers.get(name).copied().unwrap_or_else(|| panic!("there is no {name}"))
}
