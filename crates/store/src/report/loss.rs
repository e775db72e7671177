//! What damage took: of the log, and of the map.

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

/// Numbers of records, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// A place on the medium that cannot be read for what it should hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedPlace {
    /// The zone.
    pub zone: u32,
    /// The block within it.
    pub block: u64,
    /// What is wrong, in words.
    pub what: String,
}

/// What was logged after the newest checkpoint and cannot be had, because a part of the log is
/// damaged: everything behind the last record that is whole together with all before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLoss {
    /// The store is as of this record: all up to it are whole.
    pub whole_to: u64,
    /// All up to this one are known to have been durable.
    pub durable_to: u64,
    /// Where the damage is.
    pub places: Vec<DamagedPlace>,
    /// Records that are missing: what they were is not known.
    pub missing: Vec<RecordRange>,
    /// At most so many bytes of data were written by records that are missing, anywhere.
    pub unknown_bytes: u64,
    /// Records that can be read, but count no more, because one before them is missing.
    pub dropped_records: u64,
    /// What those wrote or changed: these ranges hold what they held before.
    pub ranges: Vec<Loss>,
    /// Other changes that those made and that are undone, in words.
    pub changes: Vec<String>,
}

impl LogLoss {
    /// Whether nothing is.
    pub fn is_nothing(&self) -> bool {
        self.places.is_empty() && self.missing.is_empty() && self.dropped_records == 0
    }

    /// What is lost, a line each, for people; without the ranges. At most `most` lines of each
    /// sort, and one that says how many more there are.
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

/// Sorts ranges, and makes one of those that touch.
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
