//! A reader's treatment of faults.

use super::format::Format;

/// What to do at a bad record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadRecord {
    /// Stop with an error.
    #[default]
    Refuse,
    /// Skip it and count it.
    Skip,
}

/// What to do where time goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeBack {
    /// Stop with an error.
    Refuse,
    /// Raise it to the time before, and count it. Many traces are ordered by completion, and go
    /// back by little now and then.
    #[default]
    Raise,
    /// Skip the request and count it.
    Skip,
}

/// How to read a trace. The default stops at bad records and raises times that go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; found from the content if not said.
    pub format: Option<Format>,
    /// What to do at a bad record.
    pub bad_record: BadRecord,
    /// What to do where time goes back.
    pub time_back: TimeBack,
    /// Which of blkparse's actions is a request: `Q` (queued), `D` (issued) or `C` (completed).
    /// If not said, the first of these that occurs in the trace's first 64 KiB.
    pub blkparse_action: Option<u8>,
}

impl ReadOptions {
    /// Stop at anything that is wrong.
    pub fn strict() -> Self {
        ReadOptions { time_back: TimeBack::Refuse, ..ReadOptions::default() }
    }

    /// Skip bad records and raise times that go back.
    pub fn lenient() -> Self {
        ReadOptions { bad_record: BadRecord::Skip, ..ReadOptions::default() }
    }
}
