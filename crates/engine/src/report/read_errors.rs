//! Errors of reads: each read of the device passes here, and each that fails, or returns other bytes than
//! were written, is counted by what it was for. The last ones are kept, with their places.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Errors that are kept.
const KEPT: usize = 256;

/// The most bytes of what is said of one.
const MESSAGE_BYTES_MAX: usize = 512;

/// What a read of the device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPurpose {
    /// What a client reads, or writes a part of.
    Client,
    /// Copies of what is live in a victim.
    Reclaim,
    /// Nodes of the map.
    Map,
    /// Opening the store.
    Recovery,
    /// A scrub.
    Scrub,
    /// A check.
    Check,
}

impl ReadPurpose {
    /// All of them.
    pub const ALL: [ReadPurpose; 6] = [
        ReadPurpose::Client,
        ReadPurpose::Reclaim,
        ReadPurpose::Map,
        ReadPurpose::Recovery,
        ReadPurpose::Scrub,
        ReadPurpose::Check,
    ];

    /// As `--json` names it.
    pub fn name(self) -> &'static str {
        match self {
            ReadPurpose::Client => "client",
            ReadPurpose::Reclaim => "reclaim",
            ReadPurpose::Map => "map",
            ReadPurpose::Recovery => "recovery",
            ReadPurpose::Scrub => "scrub",
            ReadPurpose::Check => "check",
        }
    }
}

/// Errors by what was read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadErrorCounts {
    /// Clients' reads.
    pub client: u64,
    /// Reclaim's copies.
    pub reclaim: u64,
    /// Nodes of the map.
    pub map: u64,
    /// Opening the store.
    pub recovery: u64,
    /// Scrubs.
    pub scrub: u64,
    /// Checks.
    pub check: u64,
}

impl ReadErrorCounts {
    /// Those of one purpose.
    pub fn of(&self, purpose: ReadPurpose) -> u64 {
        let mut counts = *self;
        *counts.of_mut(purpose)
    }

    fn of_mut(&mut self, purpose: ReadPurpose) -> &mut u64 {
        match purpose {
            ReadPurpose::Client => &mut self.client,
            ReadPurpose::Reclaim => &mut self.reclaim,
            ReadPurpose::Map => &mut self.map,
            ReadPurpose::Recovery => &mut self.recovery,
            ReadPurpose::Scrub => &mut self.scrub,
            ReadPurpose::Check => &mut self.check,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        ReadPurpose::ALL.iter().map(|purpose| self.of(*purpose)).sum()
    }
}

/// What was wrong with a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadErrorKind {
    /// The device returned an error.
    Failed,
    /// It returned other bytes than were written.
    Mismatch,
}

/// A read that failed, or did not verify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadError {
    /// What was wrong.
    pub kind: ReadErrorKind,
    /// What was read for.
    pub purpose: ReadPurpose,
    /// The device's block: the first one of a read that failed, or the one that does not match.
    pub block: u64,
    /// Blocks that were read at once, if that failed; else 1.
    pub blocks: u64,
    /// The segment that it lies in.
    pub segment: u32,
    /// Milliseconds since the store was opened.
    pub at_ms: u64,
    /// What the device said, or what does not match.
    pub message: String,
}

/// All errors of reads since the store was opened.
#[derive(Default)]
pub(crate) struct ReadErrors {
    /// Reads that failed.
    pub failed: ReadErrorCounts,
    /// Reads of what does not match its checksum.
    pub mismatched: ReadErrorCounts,
    /// The last ones.
    recent: VecDeque<ReadError>,
}

impl ReadErrors {
    pub(crate) fn note(&mut self, mut error: ReadError) {
        let counts = match error.kind {
            ReadErrorKind::Failed => &mut self.failed,
            ReadErrorKind::Mismatch => &mut self.mismatched,
        };
        *counts.of_mut(error.purpose) += 1;
        let end = error.message.floor_char_boundary(MESSAGE_BYTES_MAX);
        error.message.truncate(end);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(error);
    }

    pub fn total(&self) -> u64 {
        self.failed.total() + self.mismatched.total()
    }

    pub fn last(&self) -> Option<&ReadError> {
        self.recent.back()
    }

    /// Those that came since there were so many in all, as far as they are kept.
    pub fn since(&self, total: u64) -> impl Iterator<Item = &ReadError> {
        let new = usize::try_from(self.total() - total).unwrap_or(usize::MAX);
        self.recent.iter().skip(self.recent.len().saturating_sub(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_all_are_counted() {
        let mut errors = ReadErrors::default();
        let error = |block| ReadError {
            kind: if block % 2 == 0 { ReadErrorKind::Failed } else { ReadErrorKind::Mismatch },
            purpose: ReadPurpose::ALL[block as usize % 6],
            block,
            blocks: 1,
            segment: 0,
            at_ms: 0,
            message: "ü".repeat(MESSAGE_BYTES_MAX),
        };
        for block in 0..1000 {
            errors.note(error(block));
        }
        assert_eq!((errors.total(), errors.failed.total()), (1000, 500));
        assert_eq!((errors.failed.client, errors.mismatched.client), (167, 0));
        assert!(errors.recent.iter().all(|error| error.message.len() <= MESSAGE_BYTES_MAX));
        assert_eq!(errors.recent.len(), KEPT);
        assert_eq!(errors.last().unwrap().block, 999);
        let blocks = |since| errors.since(since).map(|error| error.block).collect::<Vec<u64>>();
        assert_eq!(blocks(997), [997, 998, 999]);
        assert_eq!(blocks(0).len(), KEPT);
        assert_eq!(blocks(1000), [0; 0]);
    }
}
