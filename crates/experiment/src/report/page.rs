//! The page: an overview, then a section for each experiment.

use std::fmt::Write;

use super::chart::Chart;
use super::label::{escape, number, words};
use super::{FIGURE_STYLE, Lead, paper, svg};
use crate::file::Figure;
use crate::results::Results;
use crate::shipped;
use crate::statistics::Estimate;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Rows of a table; the rest is in the CSV file.
const ROWS_MAX: usize = 300;
/// Notes of runs that are shown openly.
const NOTES_OPEN: usize = 4;

/// The page.
pub fn page(all: &[Results], lead: Option<&Lead>) -> String {
    let title = match (lead, all) {
        (Some(lead), _) => escape(&lead.title),
        (None, [one]) => escape(&one.experiment.title),
        _ => "Results of the lab".to_owned(),
    };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{PAGE_STYLE}{FIGURE_STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    let alone = lead.is_none() && all.len() == 1;
    if let Some(lead) = lead {
        begin(&mut html, lead);
    }
    if !alone {
        let (head, title) = match lead {
            Some(_) => ("h2", "Experiments in this folder"),
            None => ("h1", "Results of the lab"),
        };
        let _ = writeln!(html, "<{head}>{title}</{head}>");
        overview(&mut html, all);
    }
    for results in all {
        section(&mut html, results, if alone { "h1" } else { "h2" });
    }
    let _ = write!(html, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    html
}

fn begin(html: &mut String, lead: &Lead) {
    let _ = writeln!(
        html,
        "<h1>{}</h1>\n<p class=\"question\">{}</p>\n<div class=\"scroll\"><pre class=\"lead\">{}</pre></div>",
        escape(&lead.title),
        escape(&lead.answer),
        escape(&lead.details),
    );
    if let Some(command) = &lead.command {
        let command = escape(command);
        let _ = writeln!(html, "<p class=\"quiet\">To ask again: <code>{command}</code></p>");
    }
}

fn overview(html: &mut String, all: &[Results]) {
    let runs: usize = all.iter().flat_map(|results| &results.points).map(|p| p.runs.len()).sum();
    let failures: usize = all.iter().map(|results| results.failures.len()).sum();
    let _ = write!(html, "<p class=\"quiet\">{} experiments, {runs} runs", all.len());
    if failures > 0 {
        let _ = write!(html, ", <span class=\"bad\">{failures} failed</span>");
    }
    *html += ".</p>\n<div class=\"scroll\"><table>\n<thead><tr><th>Experiment</th><th>Question</th>\
              <th class=\"n\">Points</th><th>As published</th></tr></thead>\n<tbody>\n";
    for results in all {
        let experiment = &results.experiment;
        let tally = paper::tally(results);
        let published = match (tally.compared, tally.met) {
            (0, _) if tally.made_smaller == 0 => "<span class=\"quiet\">–</span>".to_owned(),
            (0, _) => format!("<span class=\"quiet\">{tally}</span>"),
            (of, met) if of == met => format!("<span class=\"good\">{tally}</span>"),
            _ => format!("<span class=\"bad\">{tally}</span>"),
        };
        let failed = match results.failures.len() {
            0 => String::new(),
            failed => format!("<br><span class=\"bad\">{failed} failed</span>"),
        };
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"n\">{2}{failed}</td><td>\
             {published}</td></tr>",
            escape(&experiment.name),
            escape(&experiment.question),
            results.points.len(),
        );
    }
    *html += "</tbody></table></div>\n";
}

fn section(html: &mut String, results: &Results, head: &str) {
    let experiment = &results.experiment;
    let quick = if results.quick { " <span class=\"badge\">quick run</span>" } else { "" };
    let _ = writeln!(
        html,
        "<section class=\"experiment\" id=\"{}\">\n<{head}>{}{quick}</{head}>\n<p class=\"question\">{}</p>\n\
         <p class=\"quiet\">After {}.</p>",
        escape(&experiment.name),
        escape(&experiment.title),
        escape(&experiment.question),
        escape(experiment.source.trim_end_matches('.')),
    );
    if !results.failures.is_empty() {
        *html += "<div class=\"failures\"><strong>Runs that failed</strong><ul>\n";
        for failed in &results.failures {
            let _ = writeln!(html, "<li>{}</li>", escape(&failed.to_string()));
        }
        *html += "</ul></div>\n";
    }
    for figure in &experiment.figure {
        draw(html, results, figure);
    }
    published(html, results);
    table(html, results);
    notes(html, results);
    configuration(html, results);
    *html += "</section>\n";
}

fn draw(html: &mut String, results: &Results, figure: &Figure) {
    let chart = match Chart::new(results, figure) {
        Ok(chart) => chart,
        Err(nothing) => {
            let _ = writeln!(html, "<p class=\"quiet\">{}.</p>", escape(&nothing.why));
            return;
        }
    };
    let (can_x, can_y) = chart.can_log();
    let (x_log, y_log) = (chart.x_log && can_x, chart.y_log && can_y);
    let word = |log: bool| if log { "log" } else { "linear" };
    let _ = writeln!(
        html,
        "<figure data-name=\"{}-{}\" data-x=\"{}\" data-y=\"{}\">\n<h3>{}</h3>\n<div class=\"switches\">",
        escape(&results.experiment.name),
        escape(&figure.name),
        word(x_log),
        word(y_log),
        escape(&chart.title),
    );
    // A bar says its value by its length, which a logarithm has none of; but it may be asked for.
    for (axis, can, on) in [("x", can_x, x_log), ("y", can_y, y_log)] {
        if can {
            let _ = writeln!(
                html,
                "<button type=\"button\" data-axis=\"{axis}\" aria-pressed=\"{on}\">log {axis}</button>"
            );
        }
    }
    *html += "</div>\n";
    for x in [false, true].into_iter().filter(|log| can_x || !log) {
        for y in [false, true].into_iter().filter(|log| can_y || !log) {
            let hidden = if (x, y) == (x_log, y_log) { "" } else { " hidden" };
            let (x_word, y_word) = (word(x), word(y));
            let id = format!("{}-{}-{x_word}-{y_word}", results.experiment.name, figure.name);
            let _ = write!(
                html,
                "<div data-x=\"{x_word}\" data-y=\"{y_word}\"{hidden}>\n{}</div>\n",
                svg::draw(&chart, x, y, &id)
            );
        }
    }
    if let Some(caption) = &chart.caption {
        let _ = writeln!(html, "<figcaption>{}</figcaption>", escape(caption));
    }
    *html += "</figure>\n";
}

fn estimate(value: &Estimate) -> String {
    match value.ci95 {
        Some(half) => format!("{} ± {}", number(value.mean), number(half)),
        None => number(value.mean),
    }
}

fn published(html: &mut String, results: &Results) {
    if results.experiment.paper.is_empty() {
        return;
    }
    let tally = paper::tally(results).to_string();
    let tally = if tally.is_empty() { tally } else { format!(": {tally}") };
    let _ = writeln!(html, "<h3>Published numbers beside ours{tally}</h3>");
    *html += "<div class=\"scroll\"><table>\n<thead><tr><th>Of</th><th class=\"n\">Published</th><th class=\"n\">Ours</th>\
              <th class=\"n\">Ratio</th><th>Difference</th></tr></thead>\n";
    for entry in &results.experiment.paper {
        let _ = writeln!(
            html,
            "<tbody><tr><th class=\"what\" scope=\"rowgroup\" colspan=\"5\">{}</th></tr>",
            escape(&entry.what)
        );
        for row in paper::rows(results, entry) {
            let class = match row.agrees() {
                Some(true) => "good",
                Some(false) => "bad",
                None => "quiet",
            };
            let of = match (row.of.parse::<f64>(), &entry.by) {
                (Ok(_), Some(by)) => format!("{by} = {}", row.of),
                _ => row.of.clone(),
            };
            let ours = row.ours.as_ref().map_or("–".to_owned(), estimate);
            let ratio = row.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{ours}</td>\
                 <td class=\"n\">{ratio}</td><td class=\"{class}\">{}</td></tr>",
                escape(&of),
                number(row.published),
                escape(&row.verdict()),
            );
        }
        let why = escape(&entry.why);
        let _ = writeln!(html, "<tr><td class=\"why\" colspan=\"5\">{why}</td></tr></tbody>");
    }
    *html += "</table></div>\n";
}

fn table(html: &mut String, results: &Results) {
    let (keys, names) = (results.coordinate_keys(), results.number_names());
    let has_cases = results.points.iter().any(|point| point.case.is_some());
    *html +=
        "<h3>All numbers</h3>\n<div class=\"scroll tall\"><table class=\"numbers\">\n<thead><tr>";
    if has_cases {
        *html += "<th>Case</th>";
    }
    for key in &keys {
        let _ = write!(html, "<th>{}</th>", escape(key));
    }
    for name in &names {
        let _ = write!(html, "<th class=\"n\">{}</th>", escape(&words(name)));
    }
    *html += "</tr></thead>\n<tbody>\n";
    for point in results.points.iter().take(ROWS_MAX) {
        *html += "<tr>";
        if has_cases {
            let _ = write!(html, "<td>{}</td>", escape(point.case.as_deref().unwrap_or("")));
        }
        for key in &keys {
            let shown = point.coordinates.get(*key).map(|value| value.to_string());
            let _ = write!(html, "<td>{}</td>", escape(&shown.unwrap_or_default()));
        }
        for name in &names {
            let shown = point.numbers.get(*name).map(estimate).unwrap_or_default();
            let _ = write!(html, "<td class=\"n\">{shown}</td>");
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n";
    if results.points.len() > ROWS_MAX {
        let more = results.points.len() - ROWS_MAX;
        let _ = writeln!(html, "<p class=\"quiet\">{more} further points are in results.csv.</p>");
    }
    if results.seeds.len() > 1 {
        let seeds = results.seeds.len();
        let _ = writeln!(
            html,
            "<p class=\"quiet\">Means over {seeds} seeds, ± half their 95 % confidence interval \
             (Student's t). Courses are the first seed's.</p>"
        );
    }
}

fn notes(html: &mut String, results: &Results) {
    let mut of_runs: Vec<String> = Vec::new();
    for point in &results.points {
        for note in point.notes() {
            of_runs.push(format!("{}: {note}", point.name()));
        }
    }
    if !results.experiment.notes.is_empty() {
        *html += "<h3>Notes</h3>\n<ul>\n";
        for note in &results.experiment.notes {
            let _ = writeln!(html, "<li>{}</li>", escape(note));
        }
        *html += "</ul>\n";
    }
    if of_runs.is_empty() {
        return;
    }
    let open = if of_runs.len() <= NOTES_OPEN { " open" } else { "" };
    let _ = writeln!(
        html,
        "<details{open}><summary>What the runs say ({})</summary>\n<ul>",
        of_runs.len()
    );
    for note in &of_runs {
        let _ = writeln!(html, "<li>{}</li>", escape(note));
    }
    *html += "</ul></details>\n";
}

fn configuration(html: &mut String, results: &Results) {
    let experiment = &results.experiment;
    let file = serde_json::to_string_pretty(experiment).unwrap_or_default();
    *html += "<details><summary>Configuration</summary>\n";
    // Of others, or one that was changed, the name says nothing to the program.
    if shipped::is_shipped(experiment) {
        let quick = if results.quick { " --quick" } else { "" };
        let seed = results.seeds.first().copied().unwrap_or(1);
        let _ = writeln!(
            html,
            "<p>To run it again: <code>mjolnir lab run {}{quick} --seed {seed} --seeds {}</code></p>",
            escape(&experiment.name),
            results.seeds.len(),
        );
    }
    let _ = writeln!(
        html,
        "<p class=\"quiet\">Program {}, build {}; seeds {}.</p>\n<pre>{}</pre></details>",
        escape(&results.version.version),
        escape(&results.version.build),
        results.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        escape(&file),
    );
}
