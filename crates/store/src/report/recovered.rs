//! What recovery had to leave out, and what it found damaged, of a store that it opened all the same.

use serde::{Deserialize, Serialize};

use crate::report::{DamagedPlace, LogLoss};

/// What opening a store after a crash found besides records to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// Records that were found and left out, since one before them is missing. No flush had covered them: that
    /// is no damage.
    #[serde(default)]
    pub dropped: Option<LogLoss>,
    /// Blocks that a flush had covered and that do not hold any more what was written. Reads of them fail.
    #[serde(default)]
    pub damaged: Vec<DamagedPlace>,
    /// Records that were acknowledged and not written when the server died, and that its warm log brought
    /// back.
    #[serde(default)]
    pub rescued_records: u64,
    /// Such records that were found and left out, since the store is open for reading only.
    #[serde(default)]
    pub unrescued_records: u64,
    /// A warm log of the store that belongs to another opening than the one that wrote the root: the store was
    /// opened for writing without it since, or an older copy was put in its place. Its records are not taken.
    #[serde(default)]
    pub foreign: Option<WarmLeft>,
    /// A warm log of the opening that wrote the root, which lies where another device number has its place. It is
    /// told of a store that is open for reading only; another is not opened.
    #[serde(default)]
    pub elsewhere: Option<WarmLeft>,
}

/// A warm log of which nothing was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmLeft {
    /// Where it lies.
    pub place: String,
    /// The records in it that the store does not hold.
    pub records: u64,
    /// The command that has the store find it, if one does.
    #[serde(default)]
    pub take: Option<String>,
}

impl WarmLeft {
    /// How many changes of a server it holds, in words.
    pub fn holds(&self) -> String {
        let changes = if self.records == 1 { "change" } else { "changes" };
        format!(
            "{} holds {} {changes} that a server acknowledged and had not written when it died",
            self.place, self.records
        )
    }

    /// What to do about it, where it lies elsewhere.
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
    /// What was dropped, a line each, for people; at most `most` lines of each sort.
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
