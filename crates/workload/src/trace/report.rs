//! A report of what a reader assumed, skipped and changed in a trace.

use mjolnir_units::TimeSpan;
use serde::Serialize;

use super::fault::{Fault, Malformed, Place};
use super::format::Format;
use super::input::Compression;

/// What is in a trace besides requests, by rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassedOver {
    /// A line that names the columns or the format.
    Header,
    /// An empty line or a comment.
    Blank,
    /// An event of the same request at another stage, or no request (blkparse).
    OtherEvent,
    /// Adding, opening or closing a file, or waiting (fio).
    FileAction,
    /// A SCSI command that is no request of ours.
    OtherCommand,
    /// A summary that the tool printed at the end.
    Footer,
}

impl PassedOver {
    /// All of them.
    pub const ALL: [PassedOver; 6] = [
        PassedOver::Header,
        PassedOver::Blank,
        PassedOver::OtherEvent,
        PassedOver::FileAction,
        PassedOver::OtherCommand,
        PassedOver::Footer,
    ];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            PassedOver::Header => "headers",
            PassedOver::Blank => "empty lines and comments",
            PassedOver::OtherEvent => "events of other kinds",
            PassedOver::FileAction => "file actions and waits",
            PassedOver::OtherCommand => "other SCSI commands",
            PassedOver::Footer => "lines of a closing summary",
        }
    }
}

/// Counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally<K>(Vec<(K, u64)>);

impl<K: Copy + PartialEq> Tally<K> {
    pub(crate) fn new() -> Self {
        Tally(Vec::new())
    }

    pub(crate) fn add(&mut self, kind: K) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.0.push((kind, 1)),
        }
    }

    /// How many of one kind.
    pub fn count(&self, kind: K) -> u64 {
        self.0.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| *count)
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The kinds that occurred, in the order in which they first did.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// A record that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Where it is.
    pub place: Place,
    /// What kind of bad.
    pub fault: Fault,
    /// What is wrong with it.
    pub what: String,
}

/// How a trace was read.
#[derive(Clone, Debug, Serialize)]
pub struct ReadReport {
    /// The name that the caller gave it.
    pub trace: String,
    /// Its format.
    pub format: Format,
    /// Whether the format was found from the content (else it was given).
    pub detected: bool,
    /// How it is packed.
    pub compression: Compression,
    /// What its numbers were taken for.
    pub units: &'static str,
    /// The first time in the trace, in its own unit: what became time 0 (our own recordings keep
    /// their times since their start).
    pub first_time: Option<u64>,
    /// When it began, if it says so: nanoseconds since 1970 (UTC).
    pub start_unix_ns: Option<u64>,
    /// Lines, or binary records, so far.
    pub records: u64,
    /// Requests so far.
    pub requests: u64,
    /// What was passed over by rights.
    pub passed_over: Tally<PassedOver>,
    /// What was skipped because it is bad.
    pub skipped: Tally<Fault>,
    /// The first of those.
    pub examples: Vec<Skipped>,
    /// How many times went back and were raised to the time before.
    pub times_raised: u64,
    /// The furthest that one went back, in nanoseconds.
    pub raised_ns_max: u64,
    /// How often a 32-bit time wrapped around and was carried on.
    pub time_wraps: u64,
    /// Whether a recording of our own ends without its closing mark: it was cut by a crash, or is
    /// still being written.
    pub cut: bool,
    /// What else the reader wants said.
    pub notes: Vec<String>,
}

impl ReadReport {
    const EXAMPLES: usize = 8;

    pub(crate) fn skip(&mut self, place: Place, bad: Malformed) {
        self.skipped.add(bad.fault);
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(Skipped { place, fault: bad.fault, what: bad.what });
        }
    }

    /// How the trace was read, one sentence a line: as which format, and what is odd.
    pub fn lines(&self) -> Vec<String> {
        let format = format!("read as {} ({})", self.format, self.format.describe());
        std::iter::once(format).chain(self.oddities()).collect()
    }

    /// What a person should know of how the trace was read, one sentence a line.
    pub fn oddities(&self) -> Vec<String> {
        let plural = |number: u64| if number == 1 { "" } else { "s" };
        let mut lines = self.notes.clone();
        for (what, count) in self.passed_over.iter() {
            lines.push(format!("{count} passed over: {}", what.name()));
        }
        if self.times_raised > 0 {
            lines.push(format!(
                "{} time{} went back, by up to {}: raised to the time before",
                self.times_raised,
                plural(self.times_raised),
                TimeSpan(self.raised_ns_max)
            ));
        }
        if self.time_wraps > 0 {
            let (wraps, s) = (self.time_wraps, plural(self.time_wraps));
            lines.push(format!(
                "the time is a counter of 32 bits: it wrapped around {wraps} time{s}"
            ));
        }
        for (fault, count) in self.skipped.iter() {
            lines.push(format!("{count} record{} skipped: {}", plural(count), fault.name()));
        }
        for example in &self.examples {
            lines.push(format!("skipped{}: {}", example.place, example.what));
        }
        lines
    }

    /// A note, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
