//! Programs and erases that fail.

use serde::Deserialize;

/// How often operations fail. The default: never.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Programs that fail, in a million. The erase block of a failed program is to be retired.
    #[serde(default)]
    pub program_failures_ppm: u32,
    /// Erases that fail, in a million. The erase block retires at once.
    #[serde(default)]
    pub erase_failures_ppm: u32,
    /// Erases after which an erase block retires; absent for no limit.
    pub endurance_erases: Option<u32>,
}

impl Faults {
    /// Whether nothing ever fails.
    pub fn never(&self) -> bool {
        *self == Faults::default()
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programmed {
    /// When it ended, in nanoseconds.
    pub done_ns: u64,
    /// Whether it failed: the pages hold nothing, and the erase block takes no more programs.
    pub failed: bool,
}
