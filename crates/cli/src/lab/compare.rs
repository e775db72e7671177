//! `lab compare`.

use std::path::Path;

use mjolnir_lab::experiment::compare::{Verdict, compare};
use mjolnir_lab::experiment::{Estimate, Results};

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
    let within = found.differences.iter().filter(|d| d.verdict == Verdict::WithinInterval).count();
    text += &format!(
        "{} compared: {} differ, {within} of them within confidence intervals\n",
        output::count(found.numbers_compared as u64, "number"),
        found.differences.len(),
    );
    output::print(&text)
}

fn shown(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(half) => format!("{:.6} ± {half:.6}", estimate.mean),
        None => format!("{:.6}", estimate.mean),
    }
}
