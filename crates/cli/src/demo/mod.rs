//! The `demo` command.

use anyhow::{Result, bail};
use clap::Args;

/// How to run the demonstration.
#[derive(Debug, Args)]
pub struct DemoOptions {}

/// Runs the demonstration.
pub fn run(_options: DemoOptions) -> Result<()> {
    bail!("this build has no demonstration; see the examples in `mjolnir --help`")
}
