//! What lay in the part that a medium has lost by becoming shorter, as far as the rest of it tells. It reads as
//! zeroes, so all that a check finds damaged is what making the medium as long again would leave damaged.

use serde::{Deserialize, Serialize};

/// The segments of which a part is missing, all of it or the end. Each is in one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPart {
    /// Of these something that was in use is missing.
    pub in_use: Vec<u32>,
    /// These may have been written to since the newest checkpoint, and nothing would tell. None, if the store
    /// was closed in order.
    pub unsure: Vec<u32>,
    /// Of these nothing is missing that was in use: they were free, or not filled as far.
    pub free: Vec<u32>,
}
