//! Saying what opening a store after a crash left out, and what it found damaged.

use std::path::PathBuf;

use mjolnir_device::{Device, Runtime};
use mjolnir_engine::{Engine, RecoveryReport};
use mjolnir_host::{WarmLeft, WarmReport};
use serde::{Deserialize, Serialize};

use crate::complaints::complain;
use crate::output::{bytes, count};

/// Lines of one sort.
const LINES_MAX: usize = 20;

/// Acknowledged changes of a server that died, which wait for the store to be opened for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many.
    pub changes: u64,
    /// The warm log that has them.
    pub file: PathBuf,
}

/// Tells it on standard error; nothing, if there is nothing to tell. `writes` says whether the store is open for
/// writing.
pub fn tell<D: Device, R: Runtime>(engine: &Engine<D, R>, warm: &WarmReport, writes: bool) {
    lines(&engine.recovery(), warm, writes).iter().for_each(|line| complain(line));
}

/// Tells what of the last server's changes was given up.
pub fn tell_given_up(left: &WarmLeft) {
    complain(&format!(
        "warning: gave up what the warm log {} held: {} ({}) that the last server of the store had acknowledged, and          perhaps not written, when it died",
        left.path.display(),
        count(left.records, "change"),
        bytes(left.bytes)
    ));
}

fn lines(recovery: &RecoveryReport, warm: &WarmReport, writes: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let log = warm.left.as_ref().map_or(String::new(), |left| format!(" {}", left.path.display()));
    let (rescued, unrescued) = (recovery.rescued_records, recovery.unrescued_records);
    let agree = |number| if number == 1 { "is" } else { "are" };
    if rescued > 0 {
        lines.push(format!(
            "note: {} that its last server had acknowledged and not written {} back, from the warm log{log}",
            count(rescued, "change"),
            agree(rescued)
        ));
    }
    if unrescued > 0 && writes {
        lines.push(format!(
            "warning: {} in the warm log{log}, which a server of the store had acknowledged and not written when it              died, {} lost: the store was opened for writing without the log since",
            count(unrescued, "change"),
            agree(unrescued)
        ));
    } else if let Some(waiting) = Waiting::of(recovery, warm) {
        lines.push(format!("warning: {}", waiting.text()));
    }
    let damaged = &recovery.damaged;
    lines.extend(damaged.iter().take(LINES_MAX).map(|place| format!("error: {}", place.what)));
    if damaged.len() > LINES_MAX {
        lines.push(format!("error: … and {} more damaged blocks", damaged.len() - LINES_MAX));
    }
    if !damaged.is_empty() {
        lines.push(
            "error: reads of damaged blocks fail; `mjolnir scrub` says to which volumes they belong".into(),
        );
    }
    let dropped = recovery.dropped_lines(LINES_MAX);
    lines.extend(dropped.iter().map(|line| format!("warning: {line}")));
    lines
}

impl Waiting {
    /// What waits in a store that is open for reading, if anything does.
    pub fn of(recovery: &RecoveryReport, warm: &WarmReport) -> Option<Self> {
        let file = warm.left.as_ref().map(|left| left.path.clone()).unwrap_or_default();
        let changes = recovery.unrescued_records;
        (changes > 0).then_some(Waiting { changes, file })
    }

    /// In words.
    pub fn text(&self) -> String {
        format!(
            "{} that a server of the store had acknowledged and not written when it died {} in the warm log {}, and not              counted here: opening the store for writing brings them back, unless it was opened so without the log since",
            count(self.changes, "change"),
            if self.changes == 1 { "waits" } else { "wait" },
            self.file.display()
        )
    }
}

/// What a check says of what is no problem.
pub fn notes(recovery: &RecoveryReport, waiting: Option<&Waiting>) -> String {
    let dropped = recovery.dropped_lines(LINES_MAX);
    waiting_note(waiting)
        + &dropped.iter().map(|line| format!("note: {line}\n")).collect::<String>()
}

/// The line of that in an answer.
pub fn waiting_note(waiting: Option<&Waiting>) -> String {
    waiting.map_or(String::new(), |waiting| format!("note: {}\n", waiting.text()))
}
