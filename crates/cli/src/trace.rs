//! The `trace` commands: what is in a block trace, and from one format to another.

mod info;
mod target;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mjolnir_study::recordings;
use mjolnir_workload::trace::{
    BadRecord, ConvertError, Format, ReadOptions, ReadReport, TimeBack, TraceReader, TraceWriter,
    convert,
};
use serde_json::json;
use target::Target;

use crate::complaints::complain;
use crate::failure::Failure;
use crate::output;

const FORMATS: &str = "\
Formats, recognised by content:
  mjolnir      our own recordings
  fio-v2       fio iolog version 2          fio-v3       fio iolog version 3
  msr          MSR Cambridge                millisecond  cut of MSR Cambridge, in milliseconds
  spc          Storage Performance Council  blkparse     blkparse's default text
  disksim      DiskSim ASCII                mqsim        MQSim ASCII
  alibaba      Alibaba Cloud                tencent      Tencent Cloud
  systor       SYSTOR '17                   vscsi1, vscsi2 (read only)  VMware vscsiStats

A trace packed with gzip is unpacked. FILE may be -, for standard input, or, unless there is such a
file, the name of a recording that is shipped: rocksdb, rocksdb-two, mariadb, fio-rates, sqlite or
build.";

/// What can be done with traces.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Tell a trace's format, units, requests, sizes, addresses, footprint and oddities.
    #[command(after_help = FORMATS)]
    Info {
        /// The trace, or several.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        reading: Reading,
    },
    /// Write a trace in another format, and tell what that could not hold.
    #[command(after_help = FORMATS)]
    Convert {
        /// The trace.
        file: PathBuf,
        /// The file to write; - for standard output.
        target: PathBuf,
        /// The format to write.
        #[arg(long, value_name = "FORMAT", default_value = "mjolnir")]
        to: Format,
        /// Replace the target if it exists.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        reading: Reading,
    },
}

/// How to take what is wrong in a trace.
#[derive(Debug, Args)]
pub struct Reading {
    /// The trace's format, if it is not recognised.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Stop also where time goes back. Otherwise such times are raised to the one before, and
    /// counted.
    #[arg(long, conflicts_with = "lenient")]
    strict: bool,
    /// Skip bad records and count them. Otherwise the first one ends reading.
    #[arg(long)]
    lenient: bool,
    /// Which events of a blkparse trace are requests: Q (queued), D (issued) or C (completed)
    /// [default: the first of these that occurs].
    #[arg(long, value_name = "ACTION", value_parser = ["Q", "D", "C"])]
    blkparse_action: Option<String>,
}

impl Reading {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            bad_record: if self.lenient { BadRecord::Skip } else { BadRecord::Refuse },
            time_back: if self.strict { TimeBack::Refuse } else { TimeBack::Raise },
            blkparse_action: self.blkparse_action.as_ref().map(|action| action.as_bytes()[0]),
        }
    }

    /// Opens a trace. What errors say of the reader's options is said in the command line's words.
    pub fn open(&self, file: &Path) -> Result<TraceReader<Box<dyn Read>>, Failure> {
        let name = file.display().to_string();
        let input: Box<dyn Read> = if file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let failed = |error: io::Error| Failure::new(format!("opening {name}: {error}"));
            match file.metadata() {
                // What is a file is what was meant, whatever its name.
                Ok(meta) if !meta.is_dir() => Box::new(File::open(file).map_err(failed)?),
                Ok(_) if !recordings::is_shipped(&name) => {
                    return Err(Failure::new(format!("{name} is a folder, not a trace")));
                }
                _ => recordings::open(&name).map_err(failed)?,
            }
        };
        TraceReader::open(input, &name, &self.options()).map_err(refused)
    }
}

/// An error of the reader in the command line's words.
pub fn refused(error: impl std::fmt::Display) -> Failure {
    let advice = error
        .to_string()
        .replace("let the reader skip bad records", "skip bad records with --lenient")
        .replace("let the reader raise such times", "leave --strict away")
        .replace("name the format if you know it", "name it with --format if you know it");
    Failure::new(advice)
}

/// Carries out a trace command.
pub fn run(command: &TraceCommand, json: bool) -> Result<(), Failure> {
    match command {
        TraceCommand::Info { files, reading } => info::run(files, reading, json),
        TraceCommand::Convert { file, target, to, force, reading } => {
            let mut reader = reading.open(file)?;
            let start = reader.look_ahead().map_err(refused)?.start_unix_ns;
            let name = target.display();
            let target = Target::open(target, *force)?;
            let to_stdout = target.is_stdout();
            let writer = TraceWriter::new(target, *to, start).map_err(refused)?;
            let (target, conversion) = match convert(&mut reader, writer) {
                // Who reads standard output has seen enough.
                Err(ConvertError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(());
                }
                Err(ConvertError::Write(error)) if !to_stdout => {
                    return Err(Failure::new(format!(
                        "writing {name}: {error}; nothing is left of it"
                    )));
                }
                outcome => outcome.map_err(refused)?,
            };
            target.keep()?;
            let report = reader.report();
            let told = if json {
                let value = json!({ "from": report, "to": to.name(), "conversion": conversion });
                format!("{value:#}\n")
            } else {
                told(report, *to, &conversion.losses.lines(), conversion.written)
            };
            // Standard output is the trace's.
            if to_stdout {
                told.lines().for_each(complain);
                return Ok(());
            }
            output::print(&told)
        }
    }
}

fn told(report: &ReadReport, to: Format, losses: &[String], written: u64) -> String {
    let mut text = format!(
        "{} of {} read from {} written as {to}\n",
        written,
        output::count(report.requests, "request"),
        report.format
    );
    for line in report.oddities() {
        text += &format!("read: {line}\n");
    }
    for line in losses {
        text += &format!("lost: {line}\n");
    }
    if losses.is_empty() {
        text += "nothing was lost\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_all_recordings() {
        for (name, _) in recordings::RECORDINGS {
            assert!(FORMATS.contains(name), "{name}");
        }
    }
}
