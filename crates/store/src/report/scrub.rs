//! What a scrub says.

use serde::{Deserialize, Serialize};

use crate::report::Loss;

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Segments read.
    pub segments: u64,
    /// Bytes read and verified.
    pub verified_bytes: u64,
    /// What could not be read or did not verify, in words, with its address.
    pub damage: Vec<String>,
    /// Ranges of volumes and snapshots that the damage hits.
    pub losses: Vec<Loss>,
    /// Blocks that did not verify, but that nothing refers to: a crash or a full disk left them
    /// half written, or the medium is failing. They go away with reclaim.
    #[serde(default)]
    pub stale_blocks: u64,
}
