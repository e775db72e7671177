//! Telling what was found: a table for people, or lines of JSON.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use mjolnir_experiment::report as figure;
use serde_json::json;

use crate::samples::Samples;
use crate::table::{Bench, Course, Line, Row, Scale, Target};

/// Prints lines as they come, and remembers what went wrong.
pub struct Report {
    json: bool,
    /// Where plots go.
    plots: Option<PathBuf>,
    scale: Scale,
    rounds: usize,
    row: Option<&'static Row>,
    missed: Vec<String>,
    skipped: Vec<String>,
    failed: Vec<String>,
}

/// Prints what there is to measure.
pub fn list(rows: &[&Row]) {
    let mut text = String::new();
    for row in rows {
        let needs = match row.needs {
            [] => String::new(),
            needs => format!(" (needs {})", needs.join(", ")),
        };
        text += &format!("{}{needs}\n", row.name);
        for Line { name, what, unit, target } in row.lines {
            text += &format!("  {name}: {what} [{unit}] {}\n", target.text());
        }
    }
    // Whoever has read enough closes the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

impl Report {
    /// Nothing told yet. Plots go to a folder, if one is given, which is made.
    ///
    /// # Errors
    ///
    /// The folder cannot be made.
    pub fn new(json: bool, plots: Option<PathBuf>, scale: Scale, rounds: usize) -> Result<Self> {
        if let Some(folder) = &plots {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(Report {
            json,
            plots,
            scale,
            rounds,
            row: None,
            missed: Vec::new(),
            skipped: Vec::new(),
            failed: Vec::new(),
        })
    }

    /// Says on which machine, where, and how large.
    pub fn head(&self, bench: &Bench) {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let model =
            model.map_or("unknown processor", |text| text.trim_start_matches([' ', '\t', ':']));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let total = crate::rows::meminfo("MemTotal:") >> 20;
        let kernel = read("/proc/sys/kernel/osrelease");
        let load = read("/proc/loadavg");
        self.progress(&format!(
            "{model}, {cores} cores, {total} GiB of memory, Linux {}, load {}; files in {}; {:?} \
             sizes, {} rounds",
            kernel.trim(),
            load.split(' ').next().unwrap_or("?"),
            bench.place.path().display(),
            self.scale,
            self.rounds,
        ));
        if self.scale != Scale::Full {
            self.progress("targets bind at --full only");
        }
    }

    /// A row begins.
    pub fn begin(&mut self, row: &'static Row) {
        self.row = Some(row);
        self.progress(&format!("{} ...", row.name));
    }

    /// Something to say meanwhile, on standard error.
    pub fn progress(&self, text: &str) {
        eprintln!("# {text}");
    }

    /// Tells a line of the present row: what it is and how it came about.
    ///
    /// # Panics
    ///
    /// If the row has no such line.
    pub fn line(&mut self, name: &str, samples: &Samples, note: &str) {
        let row = self.row.expect("a row has begun");
        let line = row.lines.iter().find(|line| line.name == name);
        let line = line.unwrap_or_else(|| panic!("row {} has no line {name}", row.name));
        let figure = samples.median();
        let holds = line.target.holds(figure);
        if holds == Some(false) {
            self.missed.push(format!("{} ({})", line.name, number(figure)));
        }
        if self.json {
            println!(
                "{}",
                json!({
                    "name": line.name,
                    "figure": figure,
                    "unit": line.unit,
                    "target": (line.target != Target::None).then(|| line.target.text()),
                    "holds": holds,
                    "lowest": samples.lowest(),
                    "highest": samples.highest(),
                    "rounds": samples.count(),
                    "scale": format!("{:?}", self.scale).to_lowercase(),
                    "note": note,
                })
            );
        } else {
            let verdict = match holds {
                Some(true) => format!("{}: holds", line.target.text()),
                Some(false) => format!(
                    "{}: MISSED by {:.0} %",
                    line.target.text(),
                    100.0 * line.target.missed_by(figure)
                ),
                None => "no bar".to_owned(),
            };
            println!(
                "{:28} {:>10} {} ({} to {}, {} rounds)  {verdict}",
                line.name,
                number(figure),
                line.unit,
                number(samples.lowest()),
                number(samples.highest()),
                samples.count(),
            );
            if !note.is_empty() {
                println!("    {note}");
            }
        }
        // Whoever reads through a pipe sees rows as they come; a closed pipe ends the run later.
        let _ = std::io::stdout().flush();
    }

    /// The courses of a line's run: for JSON a row for each point, seconds first, and a plot of each if
    /// they are wanted.
    ///
    /// # Errors
    ///
    /// A plot cannot be written.
    pub fn courses(&self, name: &str, courses: &[Course], points: &[Vec<f64>]) -> Result<()> {
        if self.json {
            let columns: Vec<&str> = std::iter::once("time_s")
                .chain(courses.iter().map(|course| course.column))
                .collect();
            println!("{}", json!({ "courses": name, "columns": columns, "points": points }));
        }
        let Some(folder) = &self.plots else { return Ok(()) };
        for (number, course) in courses.iter().enumerate() {
            let points: Vec<_> = points.iter().map(|point| (point[0], point[1 + number])).collect();
            let drawn = figure::Course {
                title: course.title,
                x_label: "Time (s)",
                y_label: course.y_label,
                points: &points,
            };
            let path = folder.join(format!("{name}-{}.svg", course.plot));
            figure::write_course(&path, &drawn).map_err(|why| anyhow!(why))?;
            self.progress(&format!("drew {}", path.display()));
        }
        Ok(())
    }

    /// A row that cannot be measured here.
    pub fn skip(&mut self, row: &Row, why: &str) {
        self.progress(&format!("{}: skipped: {why}", row.name));
        self.skipped.push(format!("{}: {why}", row.name));
    }

    /// A row that went wrong.
    pub fn fail(&mut self, row: &Row, error: &anyhow::Error) {
        self.progress(&format!("{}: FAILED: {error:#}", row.name));
        self.failed.push(format!("{}: {error:#}", row.name));
    }

    /// The sum; whether every row could be measured.
    pub fn finish(&self) -> bool {
        for (title, lines) in
            [("missed", &self.missed), ("skipped", &self.skipped), ("failed", &self.failed)]
        {
            for line in lines {
                self.progress(&format!("{title}: {line}"));
            }
        }
        self.failed.is_empty()
    }
}

/// Four significant digits.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in
            [(0.0, "0"), (1234567.0, "1234567"), (2.34567, "2.346"), (0.01234, "0.01234")]
        {
            assert_eq!(number(value), text);
        }
    }
}
