//! The content of the part that a medium lost by becoming shorter, as far as the rest of the medium
//! records it. The part reads as zeroes. So a check finds the damage that would remain if the
//! medium got its old length back.

use serde::{Deserialize, Serialize};

/// The segments that are missing wholly or at their end. Each is in one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPart {
    /// Segments of which a part in use is missing.
    pub in_use: Vec<u32>,
    /// Segments that may have been written since the newest checkpoint, with no record of it. Empty
    /// if the store was closed.
    pub unsure: Vec<u32>,
    /// Segments of which only unused space is missing: they were free, or not filled as far.
    pub free: Vec<u32>,
}
