//! Faults of a trace, and their messages.

use std::fmt;
use std::io;

use serde::Serialize;

use super::format::Format;

/// The kinds of bad record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Too few or too many columns.
    Columns,
    /// A column that should hold a number does not.
    NotANumber,
    /// A number below zero.
    Negative,
    /// A number too large for what it says.
    TooLarge,
    /// An operation that the format does not know.
    Operation,
    /// A request of no bytes.
    NoLength,
    /// Time went back.
    TimeBack,
    /// A line of more than 64 KiB.
    LineLength,
    /// The trace ends within a record.
    Truncated,
    /// More volumes than a reader keeps, or a name that is too long.
    Volume,
    /// A checksum does not match, or a structure makes no sense.
    Damaged,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 11] = [
        Fault::Columns,
        Fault::NotANumber,
        Fault::Negative,
        Fault::TooLarge,
        Fault::Operation,
        Fault::NoLength,
        Fault::TimeBack,
        Fault::LineLength,
        Fault::Truncated,
        Fault::Volume,
        Fault::Damaged,
    ];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Columns => "wrong number of columns",
            Fault::NotANumber => "not a number",
            Fault::Negative => "negative number",
            Fault::TooLarge => "number too large",
            Fault::Operation => "unknown operation",
            Fault::NoLength => "no length",
            Fault::TimeBack => "time went back",
            Fault::LineLength => "line too long",
            Fault::Truncated => "truncated",
            Fault::Volume => "too many volumes or too long a name",
            Fault::Damaged => "damaged",
        }
    }
}

/// A bad record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What kind of bad.
    pub fault: Fault,
    /// What is wrong, with the value.
    pub what: String,
}

impl Malformed {
    pub(crate) fn new(fault: Fault, what: impl Into<String>) -> Self {
        Malformed { fault, what: what.into() }
    }

    /// A bad value of a named column.
    pub(crate) fn value(fault: Fault, column: &str, value: &[u8], why: &str) -> Self {
        Malformed { fault, what: format!("{column} is {}: {why}", quoted(value)) }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The beginning of some bytes, fit to be shown.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    if bytes.len() > SHOWN { format!("{text:?}…") } else { format!("{text:?}") }
}

/// Where in a trace something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The trace as a whole.
    Whole,
    /// A line, counted from 1.
    Line(u64),
    /// A byte of the unpacked trace, counted from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => Ok(()),
            Place::Line(line) => write!(f, " line {line}"),
            Place::Byte(byte) => write!(f, " at byte {byte}"),
        }
    }
}

/// Why a trace cannot be read, or not further.
#[derive(Debug)]
pub struct TraceError {
    /// The name that the caller gave the trace.
    pub trace: String,
    /// Where.
    pub place: Place,
    /// What.
    pub kind: TraceErrorKind,
}

/// What went wrong with a trace.
#[derive(Debug)]
pub enum TraceErrorKind {
    /// A record is bad, and the options say to stop at one.
    Malformed(Malformed),
    /// It is empty.
    Empty,
    /// No format fits; the text says what it looks like.
    Unrecognised(String),
    /// It is packed in a way that is not read; the text says how, and what unpacks it.
    Packed(&'static str),
    /// It was to be read as this format, and is not; the text says why.
    NotThe(Format, String),
    /// Reading or unpacking it failed.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: ", self.trace, self.place)?;
        match &self.kind {
            TraceErrorKind::Malformed(bad) if bad.fault == Fault::TimeBack => {
                write!(f, "{bad}; sort the trace by time, or let the reader raise such times")
            }
            TraceErrorKind::Malformed(bad) => {
                let way = match self.place {
                    Place::Line(_) => "mend the line",
                    // Nobody mends the bytes of a binary trace.
                    Place::Byte(_) | Place::Whole => "take another copy of the trace",
                };
                write!(f, "{bad}; {way}, or let the reader skip bad records")
            }
            TraceErrorKind::Empty => f.write_str("the trace is empty"),
            TraceErrorKind::Unrecognised(looks) => write!(
                f,
                "the format is not recognised: {looks}; name the format if you know it ({})",
                Format::ALL.map(Format::name).join(", ")
            ),
            TraceErrorKind::Packed(how) => write!(f, "the trace is {how}"),
            TraceErrorKind::NotThe(format, why) => {
                write!(f, "not a trace of format {format}: {why}")
            }
            TraceErrorKind::Io(error) => write!(f, "cannot read on: {error}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            TraceErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
