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

pub use chart::{Course, Nothing};
pub use paper::{Tally, tally};

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ledger::{remove_if_there, write_whole};
use super::results::Results;

/// How to draw a figure wherever it stands.
const FIGURE_STYLE: &str = include_str!("figure.css");

/// A drawn figure, as a file.
struct Drawn {
    name: String,
    svg: String,
}

/// What a report says before the experiments that it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// What was asked.
    pub title: String,
    /// The answer in a sentence.
    pub answer: String,
    /// The rest of it, as lines of text.
    pub details: String,
    /// The command that asks again, if there is one.
    pub command: Option<String>,
}

/// Where a folder's lead is kept: a report that is written anew begins with it, too.
const LEAD: &str = "lead.json";

impl Lead {
    /// Has reports in this folder begin so from now on.
    ///
    /// # Errors
    ///
    /// A sentence: the file cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(self).expect("texts are text");
        write_whole(&folder.join(LEAD), &text)
    }

    /// Has reports in this folder begin with their experiments again.
    ///
    /// # Errors
    ///
    /// A sentence: the file cannot be removed.
    pub fn remove(folder: &Path) -> Result<(), String> {
        remove_if_there(&folder.join(LEAD))
    }

    fn read(folder: &Path) -> Result<Option<Lead>, String> {
        let path = folder.join(LEAD);
        match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("reading {}: {error}", path.display())),
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                format!("{} is not what a report begins with: {error}; remove it", path.display())
            }),
        }
    }
}

/// The report on some experiments as HTML, after what they lead to.
pub fn html(all: &[Results], lead: Option<&Lead>) -> String {
    page::page(all, lead)
}

/// What keeps figures from being drawn, and published numbers from being compared.
pub fn troubles(results: &Results) -> Vec<Nothing> {
    let figures = results.experiment.figure.iter();
    let not_drawn = figures.filter_map(|figure| chart::Chart::new(results, figure).err());
    not_drawn.chain(paper::troubles(results)).collect()
}

/// Each figure that can be drawn, as a file.
fn figures(results: &Results) -> Vec<Drawn> {
    let drawn = results.experiment.figure.iter().filter_map(|figure| {
        let chart = chart::Chart::new(results, figure).ok()?;
        let (can_x, can_y) = chart.can_log();
        let svg = svg::draw(&chart, chart.x_log && can_x, chart.y_log && can_y, &figure.name);
        let svg = alone(&svg);
        Some(Drawn { name: format!("{}-{}.svg", results.experiment.name, figure.name), svg })
    });
    drawn.collect()
}

/// What stands in a file of its own: the style, and for programs that know no style sheets the same
/// as attributes, in the colours of a light ground.
fn alone(svg: &str) -> String {
    const COLOURS: [&str; 8] =
        ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#3f9fd8", "#1d1f23", "#8a7f00"];
    const LOOKS: [(&str, &str); 7] = [
        ("line", "fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\""),
        ("mark", "fill=\"currentColor\""),
        ("mark hollow", "fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.8\""),
        ("bar", "fill=\"currentColor\""),
        ("error", "fill=\"none\" stroke=\"currentColor\""),
        ("grid", "fill=\"none\" stroke=\"#d9dce1\""),
        ("axis", "fill=\"none\" stroke=\"#5c6370\""),
    ];
    let mut svg = svg.to_owned();
    for (class, attributes) in LOOKS {
        let class = format!("class=\"{class}\"");
        svg = svg.replace(&class, &format!("{class} {attributes}"));
    }
    for (number, colour) in COLOURS.iter().enumerate() {
        for class in [format!("class=\"series c{number}"), format!("class=\"key c{number}")] {
            svg = svg.replace(&class, &format!("color=\"{colour}\" {class}"));
        }
    }
    let font = "font-family=\"sans-serif\" font-size=\"12.5\"";
    svg = svg.replacen("<svg ", &format!("<svg {font} "), 1);
    let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    let before = format!("<style>\n{FIGURE_STYLE}</style>\n{ground}<title");
    svg.replacen("<title", &before, 1)
}

/// Writes a course to a file, as SVG.
///
/// # Errors
///
/// A sentence: the file cannot be written.
pub fn write_course(path: &Path, course: &Course<'_>) -> Result<(), String> {
    let chart = chart::Chart::of_course(course);
    let id = path.file_stem().unwrap_or_default().to_string_lossy();
    write_figure(path, &alone(&svg::draw(&chart, false, false, &id)))
}

fn write_figure(path: &Path, svg: &str) -> Result<(), String> {
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}");
    write_whole(path, text.as_bytes())
}

/// The list of the figures that were written, beside them: others may lie there, too.
const LIST: &str = "written.json";

/// The files of figures that were written before.
fn written_figures(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let (place, list) = (folder.join("figures"), folder.join("figures").join(LIST));
    let names: Vec<String> = match std::fs::read(&list) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("reading {}: {error}", list.display())),
        // What is no list names nothing.
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
    };
    let is_name = |name: &String| Path::new(name).file_name() == Some(name.as_ref());
    Ok(names.iter().filter(|name| is_name(name)).map(|name| place.join(name)).collect())
}

/// Removes what [`write()`] wrote before: a report on results that are being replaced must not pass
/// for the one to come.
///
/// # Errors
///
/// A sentence: a file cannot be removed.
pub fn remove(folder: &Path) -> Result<(), String> {
    remove_if_there(&folder.join("report.html"))?;
    written_figures(folder)?.iter().try_for_each(|path| remove_if_there(path))
}

/// Writes `report.html`, with the folder's [`Lead`] if one is kept there, and each figure to `figures/EXPERIMENT-FIGURE.svg`. Figures that it wrote
/// before and does not any more go.
///
/// # Errors
///
/// A sentence: a file cannot be written.
pub fn write(folder: &Path, all: &[Results]) -> Result<(), String> {
    let lead = Lead::read(folder)?;
    let place = folder.join("figures");
    std::fs::create_dir_all(&place)
        .map_err(|error| format!("making {}: {error}", place.display()))?;
    let drawn: Vec<Drawn> = all.iter().flat_map(figures).collect();
    let names: Vec<&str> = drawn.iter().map(|figure| &*figure.name).collect();
    let is_drawn = |path: &Path| names.iter().any(|name| path.file_name() == Some(name.as_ref()));
    for path in written_figures(folder)?.iter().filter(|path| !is_drawn(path)) {
        remove_if_there(path)?;
    }
    // First, so that none of them is ever unlisted.
    let list = serde_json::to_vec(&names).expect("names are text");
    write_whole(&place.join(LIST), &list)?;
    for figure in &drawn {
        write_figure(&place.join(&figure.name), &figure.svg)?;
    }
    write_whole(&folder.join("report.html"), html(all, lead.as_ref()).as_bytes())
}
