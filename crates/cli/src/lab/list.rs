//! `lab list`.

use mjolnir_experiment::{Changes, Plan, SHIPPED};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Table};

/// Lists the shipped experiments.
pub fn run(json: bool) -> Result<(), Failure> {
    let mut table = Table::new(&["NAME", ">POINTS", ">QUICK", "TITLE"]);
    let mut values = Vec::new();
    for (name, text) in SHIPPED {
        let plan = |quick| {
            let changes = Changes { quick, ..Changes::default() };
            Plan::new(
                &format!("experiments/{name}.toml"),
                text,
                &changes,
                &mjolnir_machine::kinds(),
            )
            .map_err(|mistake| Failure::new(mistake.to_string()))
        };
        let (full, quick) = (plan(false)?, plan(true)?);
        let experiment = &full.experiment;
        table.row(vec![
            (*name).to_owned(),
            full.points.len().to_string(),
            quick.points.len().to_string(),
            experiment.title.clone(),
        ]);
        values.push(json!({
            "name": name,
            "title": experiment.title,
            "source": experiment.source,
            "question": experiment.question,
            "points": full.points.len(),
            "quick_points": quick.points.len(),
            "seeds": full.seeds,
            "figures": experiment.figure.iter().map(|figure| &figure.name).collect::<Vec<_>>(),
        }));
    }
    if json { output::print_json(&values) } else { output::print(&table.text()) }
}
