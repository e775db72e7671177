//! The `mjolnir` program: makes, serves and tends stores.
//!
//! **Imports** every library; imported by nobody. **Leaves out** what a store does: each command
//! is a [`request::Request`], answered by [`handle::handle`], here if the store is at rest, or by
//! the server through its control socket.
//!
//! Invariants:
//! * Every command does the same to a store at rest and to one being served, since both go through
//!   `handle`.
//! * Exit status: 0 done, 1 refused, failed, or damage found, 2 the command line is wrong, 130
//!   interrupted.

mod advise;
mod arguments;
mod collect;
mod commands;
mod complaints;
mod control;
mod demo;
mod difference;
mod door;
mod failure;
mod format;
mod generate;
mod handle;
mod interrupt;
mod lab;
mod meter;
mod output;
mod payload;
mod recovered;
mod request;
mod salvage;
mod serve;
mod show;
mod trace;
mod users;
mod waiting;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let arguments = Arguments::try_parse_from(&words)
        .unwrap_or_else(|error| arguments::hinted(error, &words).exit());
    let Some(command) = arguments.command else {
        return finish(generate::help());
    };
    let json = arguments.json;
    finish(match command {
        Command::Format(options) => format::run(&options, json),
        Command::Serve(options) => serve::run(options, json),
        Command::Salvage { store } => salvage::run(&store, json),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { out } => generate::man(out.as_deref()),
        Command::Advise(options) => advise::run(&options, json),
        Command::Trace(command) => trace::run(&command, json),
        Command::Lab(command) => lab::run(&command, json),
        Command::Demo(options) => demo::run(options, json).map_err(|error| {
            let interrupted = error.is::<demo::Interrupted>();
            let status = if interrupted { lab::INTERRUPTED } else { 1 };
            Failure::from(error).with_status(status)
        }),
        Command::Store(command) => commands::run(command, json),
    })
}

fn finish(outcome: Result<(), Failure>) -> ExitCode {
    let status = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complaints::drain();
            failure.tell();
            ExitCode::from(failure.status())
        }
    };
    complaints::drain();
    status
}
