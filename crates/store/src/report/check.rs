//! The report of a check.

use serde::{Deserialize, Serialize};

use crate::report::{BadSegment, LogLoss, Loss, MissingPart, ReadError, RecoveryReport};

/// The coverage and findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Volumes and snapshots whose whole map was walked.
    pub targets: u64,
    /// Mapped extents seen.
    pub extents: u64,
    /// Mapped bytes, counted once for each target that refers to them.
    pub mapped_bytes: u64,
    /// Segments whose entry was checked.
    pub segments: u64,
    /// The problems found, in words; empty if all is well.
    pub problems: Vec<String>,
    /// Ranges of volumes and snapshots that cannot be read any more.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// The lost part of the log, if the store could only be opened without it.
    #[serde(default)]
    pub log: Option<LogLoss>,
    /// The records that opening the store left out, and the damage that it found.
    #[serde(default)]
    pub recovery: RecoveryReport,
    /// The content of the missing part, if the medium has become shorter.
    #[serde(default)]
    pub missing: Option<MissingPart>,
    /// Segments that the device failed to write to. They are no problem: what was to be written lies
    /// elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bad_segments: Vec<BadSegment>,
    /// Failed reads of the device since the store was opened, for any purpose, this check included.
    #[serde(default)]
    pub read_errors: u64,
    /// Checksum mismatches of reads since then.
    #[serde(default)]
    pub checksum_errors: u64,
    /// The last errors of both kinds that this check met, or reads of the map met meanwhile.
    #[serde(default)]
    pub met: Vec<ReadError>,
}
