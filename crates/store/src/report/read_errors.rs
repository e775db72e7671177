//! Errors of device reads, by purpose.

use serde::{Deserialize, Serialize};

/// The purpose of a device read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPurpose {
    /// A client's read, or its write of a part of a block.
    Client,
    /// Copies of a victim's live blocks.
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

    /// The purpose's name in `--json`.
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

/// Numbers of errors, by purpose.
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
    /// The count of one purpose.
    pub fn of(&self, purpose: ReadPurpose) -> u64 {
        let mut counts = *self;
        *counts.of_mut(purpose)
    }

    /// The count of one purpose, to be changed.
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

/// The kind of a read error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadErrorKind {
    /// The device returned an error.
    Failed,
    /// The device returned other bytes than were written.
    Mismatch,
}

/// A read that failed, or did not verify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadError {
    /// Failed or mismatched.
    pub kind: ReadErrorKind,
    /// The purpose of the read.
    pub purpose: ReadPurpose,
    /// The device's block: the first block of a failed read, or the mismatched block.
    pub block: u64,
    /// Blocks of a failed read; 1 for a mismatch.
    pub blocks: u64,
    /// The block's segment.
    pub segment: u32,
    /// Milliseconds since the store was opened.
    pub at_ms: u64,
    /// The device's error, or a description of the mismatch.
    pub message: String,
}
