//! The records that recovery left out, and the damage that it found, in a store that it opened
//! nevertheless.

use serde::{Deserialize, Serialize};

use crate::report::{DamagedPlace, LogLoss};

/// Findings of opening a store after a crash, besides the records replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// Records left out because a record before them is missing. No flush had covered them, so this
    /// is no damage.
    #[serde(default)]
    pub dropped: Option<LogLoss>,
    /// Blocks that a flush had covered and whose content is damaged. Reads of them fail.
    #[serde(default)]
    pub damaged: Vec<DamagedPlace>,
    /// Records that were acknowledged but not written when the server died, and that its warm log
    /// restored.
    #[serde(default)]
    pub rescued_records: u64,
    /// Such records left out because the store is open for reading only.
    #[serde(default)]
    pub unrescued_records: u64,
    /// A warm log of another opening than the one that wrote the root: the store was opened for
    /// writing without the log since, or an older copy of the store was put in place. Recovery does
    /// not take its records.
    #[serde(default)]
    pub foreign: Option<WarmLeft>,
    /// A warm log of the opening that wrote the root, found at the place of another device number.
    /// Reported only for a store open for reading only; a store with such a log does not open for
    /// writing.
    #[serde(default)]
    pub elsewhere: Option<WarmLeft>,
}

/// A warm log whose records were not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmLeft {
    /// The log's place.
    pub place: String,
    /// The log's records that the store does not have.
    pub records: u64,
    /// The command that makes the store find the log, if there is one.
    #[serde(default)]
    pub take: Option<String>,
}

impl WarmLeft {
    /// The number of a server's changes in the log, in words.
    pub fn holds(&self) -> String {
        let changes = if self.records == 1 { "change" } else { "changes" };
        format!(
            "{} holds {} {changes} that a server acknowledged and had not written when it died",
            self.place, self.records
        )
    }

    /// Advice for a log that lies elsewhere.
    pub fn advice(&self) -> String {
        format!(
            "that server had this store under another device or inode number, or served the store that this is a \
             copy of. If it was this store, run `{}` and open it again. If this is a copy, open the original first, \
             or open the copy once by `mjolnir serve --warm-log off`, which leaves that file to the original",
            self.take.as_deref().unwrap_or_default()
        )
    }
}

impl RecoveryReport {
    /// The dropped records, one a line, for people; at most `most` lines of each sort.
    pub fn dropped_lines(&self, most: usize) -> Vec<String> {
        let Some(dropped) = &self.dropped else { return Vec::new() };
        let records = dropped.dropped_records;
        let first = format!(
            "opening it left out {records} {} that no flush had covered: they, or one before them, did not arrive",
            if records == 1 { "record" } else { "records" },
        );
        let ranges = dropped.ranges.iter().take(most).map(|range| {
            let (target, offset, length) = (&range.target, range.offset, range.length);
            format!("left out: what was written to {target}, bytes {offset}+{length}")
        });
        let changes = dropped.changes.iter().take(most).map(|change| format!("left out: {change}"));
        let mut lines: Vec<String> = [first].into_iter().chain(ranges).chain(changes).collect();
        let more =
            dropped.ranges.len().saturating_sub(most) + dropped.changes.len().saturating_sub(most);
        if more > 0 {
            lines.push(format!("… and {more} more; `mjolnir check --json` lists all"));
        }
        lines
    }
}
