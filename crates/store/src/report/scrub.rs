//! The report of a scrub.

use serde::{Deserialize, Serialize};

use crate::report::Loss;

/// The findings of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Segments read.
    pub segments: u64,
    /// Bytes read and verified.
    pub verified_bytes: u64,
    /// Blocks that could not be read or did not verify, in words, with addresses.
    pub damage: Vec<String>,
    /// Ranges of volumes and snapshots that the damage hits.
    pub losses: Vec<Loss>,
    /// Unreferenced blocks that did not verify. A crash or a full disk left them half written, or
    /// the medium is failing. Reclaim removes them.
    #[serde(default)]
    pub stale_blocks: u64,
}
