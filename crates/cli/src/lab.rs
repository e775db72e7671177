//! The `lab` commands: run experiments, report on them, compare them.

pub mod build;
mod compare;
mod list;
mod progress;
mod run;

pub use progress::Progress;
pub use run::{INTERRUPTED, jobs, signals, stopped};

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mjolnir_experiment::{Results, report};
use serde_json::json;
use toml::Value;

use crate::complaints::complain;
use crate::failure::Failure;
use crate::output;

/// Where results go, and where they are looked for.
const FOLDER: &str = "lab-results";

const RUN_EXAMPLES: &str = "\
Examples:
  mjolnir lab run all --quick                      everything, small
  mjolnir lab run waf-closed-forms --seeds 5       with confidence intervals
  mjolnir lab run waf-closed-forms --set pages=256 --out other
  mjolnir lab run mine.toml                        an experiment of one's own

Results go to FOLDER/EXPERIMENT: results.json, results.csv (a row for each run) and summary.csv (a
row for each point); the report on all experiments of the folder is FOLDER/report.html, and its
figures are in FOLDER/figures. A run that was interrupted goes on where it stood when the same
command is given again.

Exit status: 0 if all went well; 1 if a run failed, or something was wrong; 2 if the command line is
wrong; 130 if it was interrupted.";

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the experiments that are shipped.
    List,
    /// Run experiments, and write their results and a report.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Write the report on all results in a folder anew, as one HTML page, and figures as SVG.
    Report {
        /// The folder.
        #[arg(default_value = FOLDER)]
        folder: PathBuf,
    },
    /// Tell which numbers of two sets of results differ, and whether chance explains it.
    ///
    /// Points are paired by experiment, case and swept values. Where there are several seeds, a
    /// difference is judged by the 95 % confidence interval of both means.
    Compare {
        /// A folder with results, or a results.json.
        a: PathBuf,
        /// The other one.
        b: PathBuf,
    },
}

/// How to run experiments.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The name of a shipped experiment, `all` of them, or the path of an experiment file.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Run the small variants: they show that all works, not what the numbers are.
    #[arg(long)]
    pub quick: bool,
    /// How many runs at a time [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// The first seed [default: the experiment's].
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// How many seeds; two or more give confidence intervals [default: the experiment's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// Change a value of the configuration, by its dotted key; may be given again. A swept key is
    /// swept no more, or over the values of a list: --set 'spare=[0.1, 0.2]'.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_set)]
    pub set: Vec<(String, Value)>,
    /// Where results go.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    pub out: PathBuf,
}

/// A value is TOML's; what is none is a text.
fn parse_set(text: &str) -> Result<(String, Value), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("write KEY=VALUE".to_owned());
    };
    let (key, value) = (key.trim(), value.trim());
    if key.split('.').any(str::is_empty) {
        return Err("the key, or a part of it, is empty".to_owned());
    }
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut t| t.remove("value"));
    Ok((key.to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// Carries out a lab command.
pub fn run(command: &LabCommand, json: bool) -> Result<(), Failure> {
    match command {
        LabCommand::List => list::run(json),
        LabCommand::Run(options) => run::run(options, json),
        LabCommand::Report { folder } => {
            let all = Results::read_all(folder).map_err(Failure::new)?;
            report::write(folder, &all).map_err(Failure::new)?;
            all.iter().flat_map(report::troubles).for_each(|trouble| complain(&trouble.why));
            let page = folder.join("report.html");
            if json {
                return output::print_json(&json!({ "report": page, "experiments": all.len() }));
            }
            output::print(&format!("{}\n", page.display()))
        }
        LabCommand::Compare { a, b } => compare::run(a, b, json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_tomls_or_text() {
        let value = |text| parse_set(text).unwrap().1;
        assert_eq!(value("a.b=3"), Value::Integer(3));
        assert_eq!(value("a=0.07"), Value::Float(0.07));
        assert_eq!(value("a=greedy"), Value::String("greedy".into()));
        assert_eq!(value("a=\"greedy\""), Value::String("greedy".into()));
        assert_eq!(value("a=[1, 2]"), Value::Array(vec![Value::Integer(1), Value::Integer(2)]));
        assert_eq!(value("a=1\nb=2"), Value::String("1\nb=2".into()));
        assert!(parse_set("a").is_err() && parse_set(".a=1").is_err());
    }
}
