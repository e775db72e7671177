//! `lab compare`.

use std::path::Path;

use mjolnir_experiment::compare::{Verdict, compare};
use mjolnir_experiment::{Estimate, Results};

use crate::failure::Failure;
use crate::output::{self, Table};

/// Compares two folders or files of results.
pub fn run(a: &Path, b: &Path, json: bool) -> Result<(), Failure> {
    let read = |path: &Path| Results::read_all(path).map_err(Failure::new);
    let found = compare(&read(a)?, &read(b)?);
    if json {
        return output::print_json(&found);
    }
    let mut text = String::new();
    for remark in &found.remarks {
        text += &format!("{remark}\n");
    }
    if !found.differences.is_empty() {
        let heads = ["EXPERIMENT", "POINT", "NUMBER", ">A", ">B", ">RATIO", "CHANCE"];
        let mut table = Table::new(&heads);
        for difference in &found.differences {
            table.row(vec![
                difference.experiment.clone(),
                difference.point.clone(),
                difference.number.clone(),
                shown(&difference.a),
                shown(&difference.b),
                difference.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.4}")),
                difference.verdict.to_string(),
            ]);
        }
        text += &table.text();
    }
    let count = |verdict| found.differences.iter().filter(|d| d.verdict == verdict).count();
    let by_clock = match count(Verdict::ByClock) {
        0 => String::new(),
        runs => format!(
            ", {runs} were measured by the clock in one run each, which never gives the same twice"
        ),
    };
    text += &format!(
        "{} compared: {} differ, {} of them within confidence intervals{by_clock}\n",
        output::count(found.numbers_compared as u64, "number"),
        found.differences.len(),
        count(Verdict::WithinInterval),
    );
    output::print(&text)
}

fn shown(estimate: &Estimate) -> String {
    let mean = format!("{:.6}", estimate.mean);
    match estimate.ci95.map(|half| format!("{half:.6}")) {
        // Where nothing is left to chance, all seeds give the same.
        Some(half) if half != "0.000000" => format!("{mean} ± {half}"),
        _ => mean,
    }
}
