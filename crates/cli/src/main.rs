//! The `mjolnir` program.

mod demo;

use clap::{Parser, Subcommand};

/// A log-structured block store that collects its own garbage.
#[derive(Parser)]
#[command(name = "mjolnir", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows the main job within two minutes, on a store that is removed afterwards.
    Demo(demo::DemoOptions),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Demo(options) => demo::run(options),
    }
}
