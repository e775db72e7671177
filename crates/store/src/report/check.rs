//! What a check says.

use serde::{Deserialize, Serialize};

use crate::report::{LogLoss, Loss, MissingPart, ReadError, RecoveryReport};

/// What a check looked at and found.
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
    /// What is wrong, in words; empty if all is well.
    pub problems: Vec<String>,
    /// Ranges of volumes and snapshots that cannot be read any more.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// What of the log is lost, if the store could only be opened by leaving that out.
    #[serde(default)]
    pub log: Option<LogLoss>,
    /// What opening the store left out, and what it found damaged.
    #[serde(default)]
    pub recovery: RecoveryReport,
    /// What lay in the part that is missing, if the medium has become shorter.
    #[serde(default)]
    pub missing: Option<MissingPart>,
    /// Reads of the device that failed since the store was opened, for whatever purpose, those of this check
    /// included.
    #[serde(default)]
    pub read_errors: u64,
    /// Times since then that what was read did not match its checksum.
    #[serde(default)]
    pub checksum_errors: u64,
    /// Of both, those that this check met, or that were met of the map meanwhile: the last ones.
    #[serde(default)]
    pub met: Vec<ReadError>,
}
