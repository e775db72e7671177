//! The report: one HTML page that needs nothing else, and each figure as an SVG file.
//!
//! Figures are drawn here, once for each pair of axes that they can have; the page's script only
//! shows values under the pointer and puts series away. So the page says all without a script, and
//! a figure is the same in the page and in its file.

mod axis;
mod chart;
mod label;
mod page;
mod paper;
mod svg;

pub use paper::tally;

use std::path::Path;

use super::ledger::write_whole;
use super::results::Results;

/// How to draw a figure wherever it stands.
const FIGURE_STYLE: &str = include_str!("figure.css");

/// A drawn figure, as a file.
struct Drawn {
    name: String,
    svg: String,
}

/// The report on some experiments as HTML.
pub fn html(all: &[Results]) -> String {
    page::page(all)
}

/// What keeps figures from being drawn, in sentences.
pub fn troubles(results: &Results) -> Vec<String> {
    let figures = &results.experiment.figure;
    figures.iter().filter_map(|figure| chart::Chart::new(results, figure).err()).collect()
}

/// Each figure that can be drawn, as a file.
fn figures(results: &Results) -> Vec<Drawn> {
    let drawn = results.experiment.figure.iter().filter_map(|figure| {
        let chart = chart::Chart::new(results, figure).ok()?;
        let (can_x, can_y) = chart.can_log();
        let svg = svg::draw(&chart, chart.x_log && can_x, chart.y_log && can_y, &figure.name);
        let style = format!("<style>\n{FIGURE_STYLE}</style>\n");
        let svg = svg.replacen("<title", &format!("{style}<title"), 1);
        Some(Drawn { name: format!("{}-{}.svg", results.experiment.name, figure.name), svg })
    });
    drawn.collect()
}

/// Writes `report.html`, and each figure to `figures/EXPERIMENT-FIGURE.svg`.
///
/// # Errors
///
/// A sentence: a file cannot be written.
pub fn write(folder: &Path, all: &[Results]) -> Result<(), String> {
    let place = folder.join("figures");
    std::fs::create_dir_all(&place)
        .map_err(|error| format!("making {}: {error}", place.display()))?;
    for drawn in all.iter().flat_map(figures) {
        let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", drawn.svg);
        write_whole(&place.join(drawn.name), text.as_bytes())?;
    }
    write_whole(&folder.join("report.html"), html(all).as_bytes())
}
