//! Segments that the device failed to write to.

use serde::{Deserialize, Serialize};

/// A segment that the device failed to write to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadSegment {
    /// Its number.
    pub segment: u32,
    /// How often it failed.
    pub failures: u8,
    /// Whether it still holds data. If not, it is out of use.
    pub in_use: bool,
    /// What the device said last.
    pub why: String,
}

/// What came of trying the bad segments that hold nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadTried {
    /// Segments tried.
    pub tried: u64,
    /// Those that work again: they are free with the next checkpoint.
    pub taken_back: u64,
}
