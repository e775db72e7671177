//! Errors of reads of the device, by what was read for.

use serde::{Deserialize, Serialize};

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

    /// The same, to be counted.
    pub fn of_mut(&mut self, purpose: ReadPurpose) -> &mut u64 {
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
