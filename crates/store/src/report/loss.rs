//! Losses by damage: of the log, and of volumes.

use serde::{Deserialize, Serialize};

/// A range of a volume or snapshot whose bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loss {
    /// `volume`, or `volume@snapshot`.
    pub target: String,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A range of record numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// A place on the medium whose content is damaged or unreadable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedPlace {
    /// The zone.
    pub zone: u32,
    /// The block within it.
    pub block: u64,
    /// What is wrong, in words.
    pub what: String,
}

/// The records after the newest checkpoint that are lost because a part of the log is damaged: all
/// records behind the last one up to which every record is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLoss {
    /// The store's state is that of this record: all records up to it are whole.
    pub whole_to: u64,
    /// All records up to this one are known to have been durable.
    pub durable_to: u64,
    /// Where the damage is.
    pub places: Vec<DamagedPlace>,
    /// The missing records, of unknown content.
    pub missing: Vec<RecordRange>,
    /// The missing records wrote at most this many bytes of data, at unknown places.
    pub unknown_bytes: u64,
    /// Readable records that were dropped, because a record before them is missing.
    pub dropped_records: u64,
    /// The ranges that the dropped records wrote: these hold their earlier content.
    pub ranges: Vec<Loss>,
    /// Other changes of the dropped records, in words; they are undone.
    pub changes: Vec<String>,
}

impl LogLoss {
    /// Whether nothing is lost.
    pub fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.missing.is_empty() && self.dropped_records == 0
    }

    /// The losses, one a line, for people; without the ranges. At most `most` lines of each sort,
    /// and a line with the number of the others.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let more = |lines: &mut Vec<String>, all: usize, what: &str| {
            if all > most {
                lines.push(format!("… and {} more {what}; --json lists all", all - most));
            }
        };
        let places = self.places.iter().take(most);
        let mut lines: Vec<String> = places.map(|place| place.what.clone()).collect();
        more(&mut lines, self.places.len(), "damaged places");
        lines.push(format!(
            "the log is whole up to record {}; what was logged after it does not count",
            self.whole_to
        ));
        for range in self.missing.iter().take(most) {
            lines.push(match range.first == range.last {
                true => format!("record {} is missing: it is not known what it did", range.first),
                false => format!(
                    "records {} to {} are missing: it is not known what they did",
                    range.first, range.last
                ),
            });
        }
        more(&mut lines, self.missing.len(), "ranges of missing records");
        if self.unknown_bytes > 0 {
            lines.push(format!(
                "at most {} bytes were written by what is missing, to volumes that are not known; \
                 there they hold what they held before",
                self.unknown_bytes
            ));
        }
        lines.extend(self.changes.iter().take(most).map(|change| format!("undone: {change}")));
        more(&mut lines, self.changes.len(), "changes undone");
        lines
    }
}

/// Sorts ranges, and joins those that touch.
pub fn join(ranges: &mut Vec<Loss>) {
    ranges.retain(|range| range.length > 0);
    ranges.sort();
    let mut joined: Vec<Loss> = Vec::with_capacity(ranges.len());
    for range in ranges.drain(..) {
        match joined.last_mut() {
            Some(last)
                if last.target == range.target
                    && range.offset <= last.offset.saturating_add(last.length) =>
            {
                let end = (range.offset.saturating_add(range.length))
                    .max(last.offset.saturating_add(last.length));
                last.length = end - last.offset;
            }
            _ => joined.push(range),
        }
    }
    *ranges = joined;
}
