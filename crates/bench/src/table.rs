//! What a row of the table is.

use std::path::PathBuf;

use anyhow::Result;

use crate::place::Place;
use crate::report::Report;

/// How large to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// To see that a row runs.
    Tiny,
    /// Minutes for the whole table; what depends on size is only indicated.
    Small,
    /// The sizes of the table, at which its targets bind.
    Full,
}

/// What rows are measured with.
pub struct Bench {
    /// How large to measure.
    pub scale: Scale,
    /// How often.
    pub rounds: usize,
    /// Where files go.
    pub place: Place,
    /// The `mjolnir` program, if named.
    pub program: Option<PathBuf>,
}

impl Bench {
    /// The size for this scale.
    pub fn size<T>(&self, tiny: T, small: T, full: T) -> T {
        match self.scale {
            Scale::Tiny => tiny,
            Scale::Small => small,
            Scale::Full => full,
        }
    }
}

/// Lines that are measured together.
pub struct Row {
    /// What the command line calls it.
    pub name: &'static str,
    /// Programs that it runs; without one of them it is skipped.
    pub needs: &'static [&'static str],
    /// The figures that it gives.
    pub lines: &'static [Line],
    /// Measures, and tells each line.
    pub run: fn(&Bench, &mut Report) -> Result<()>,
}

/// A figure of the table.
pub struct Line {
    /// What the command line and JSON call it.
    pub name: &'static str,
    /// What is measured, against what.
    pub what: &'static str,
    /// Of the figure; `x` for a ratio.
    pub unit: &'static str,
    /// What it should be.
    pub target: Target,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most this.
    Most(f64),
    /// At least this.
    Least(f64),
    /// No bar yet.
    None,
}

impl Target {
    /// Whether a figure keeps it; none without a bar.
    pub fn holds(self, figure: f64) -> Option<bool> {
        match self {
            Target::Most(bar) => Some(figure <= bar),
            Target::Least(bar) => Some(figure >= bar),
            Target::None => None,
        }
    }

    /// By which part of the bar a figure misses it.
    pub fn missed_by(self, figure: f64) -> f64 {
        match self {
            Target::Most(bar) if bar > 0.0 => figure / bar - 1.0,
            Target::Least(bar) if bar > 0.0 => 1.0 - figure / bar,
            _ => figure,
        }
    }

    /// As people write it; empty without a bar.
    pub fn text(self) -> String {
        match self {
            Target::Most(bar) => format!("<= {bar}"),
            Target::Least(bar) => format!(">= {bar}"),
            Target::None => String::new(),
        }
    }
}

/// What a row has over the time of its run, a value for each look at it.
pub struct Course {
    /// What JSON calls it, with its unit.
    pub column: &'static str,
    /// What its plot's file is called, after the row.
    pub plot: &'static str,
    /// What its plot shows.
    pub title: &'static str,
    /// What the plot's y axis says.
    pub y_label: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_kept_at_its_bar_and_missed_past_it() {
        assert_eq!(Target::Most(1.2).holds(1.2), Some(true));
        assert_eq!(Target::Most(0.0).holds(1.0), Some(false));
        assert_eq!(Target::Least(0.9).holds(0.89), Some(false));
        assert_eq!(Target::None.holds(7.0), None);
        assert!((Target::Most(2.0).missed_by(3.0) - 0.5).abs() < 1e-9);
        assert!((Target::Least(2.0).missed_by(1.0) - 0.5).abs() < 1e-9);
    }
}
