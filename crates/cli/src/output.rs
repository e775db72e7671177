//! Printing: tables and JSON. A reader that has seen enough (`| head`) is no error.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use mjolnir_units::{ByteSize, TimeSpan};
use serde::Serialize;

use crate::failure::Failure;

/// Prints text to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints bytes to standard output.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON, on lines of its own.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("encoding as JSON: {error}")))?;
    text.push('\n');
    print(&text)
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%=:,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Makes a folder for results, and those it is in.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let name = folder.display();
        Failure::new(match folder.exists() && !folder.is_dir() {
            true => format!("{name} is a file: name a folder, or a path where nothing is yet"),
            false => format!("making the folder {name}: {error}"),
        })
    })
}

/// Columns under their heads. Columns whose head begins with `>` are aligned to the right.
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with those columns.
    pub fn new(heads: &[&'static str]) -> Self {
        Table { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.heads.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The table as text; heads alone if it has no rows.
    pub fn text(&self) -> String {
        let titles = self.heads.iter().map(|head| head.trim_start_matches('>').to_owned());
        let lines: Vec<Vec<String>> =
            std::iter::once(titles.collect()).chain(self.rows.iter().cloned()).collect();
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines {
            let mut shown = String::new();
            for ((cell, width), head) in line.iter().zip(&widths).zip(&self.heads) {
                shown += &match head.starts_with('>') {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:<width$}  "),
                };
            }
            text += shown.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Bytes, for people.
pub fn bytes(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

/// So many of a thing.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A part of a whole as a percentage.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A span of time in the unit that suits it.
pub fn time(ns: u64) -> String {
    TimeSpan(ns).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(&["NAME", ">SIZE"]);
        table.row(vec!["v".into(), "64 GiB".into()]);
        table.row(vec!["a-longer-one".into(), "1 B".into()]);
        let expected = "NAME            SIZE\nv             64 GiB\na-longer-one     1 B\n";
        assert_eq!(table.text(), expected);
    }
}
