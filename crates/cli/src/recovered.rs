//! Saying what opening a store after a crash left out, and what it found damaged.

use std::path::PathBuf;

use mjolnir_host::{WarmLeft, WarmReport};
use mjolnir_store::Maintenance;
use mjolnir_store::report::{RecoveryReport, WarmLeft as Elsewhere};
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
    /// The command that has the store find it, where it lies under another device number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub take: Option<String>,
}

/// Tells it on standard error; nothing, if there is nothing to tell. `writes` says whether the store is open for
/// writing.
pub fn tell(store: &impl Maintenance, warm: &WarmReport, writes: bool) {
    lines(&store.recovery(), warm, writes).iter().for_each(|line| complain(line));
}

/// Tells what of the last server's changes was given up.
pub fn tell_given_up(left: &WarmLeft) {
    complain(&format!(
        "warning: gave up what the warm log {} held: {} ({}) that the last server of the store had acknowledged, \
         and perhaps not written, when it died",
        left.path.display(),
        count(left.records, "change"),
        bytes(left.bytes)
    ));
}

fn lines(recovery: &RecoveryReport, warm: &WarmReport, writes: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let log = warm.left.as_ref().map_or(String::new(), |left| format!(" {}", left.path.display()));
    let rescued = recovery.rescued_records;
    if rescued > 0 {
        lines.push(format!(
            "note: {} that its last server had acknowledged and not written {} back, from the warm log{log}",
            count(rescued, "change"),
            if rescued == 1 { "is" } else { "are" }
        ));
    }
    lines.extend(Waiting::of(recovery, warm).map(|waiting| format!("warning: {}", waiting.text())));
    lines.extend(foreign(recovery, writes).map(|what| format!("warning: {what}")));
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

/// What is said of a warm log that belongs to another history of the store.
fn foreign(recovery: &RecoveryReport, writes: bool) -> Option<String> {
    let left = recovery.foreign.as_ref()?;
    let then = if writes { "They are removed" } else { "Opening it for writing removes them" };
    Some(format!(
        "{}. They do not belong to the store as it is now, and are not taken: it was opened for writing without them \
         since, or an older copy was put in its place. {then}",
        left.holds()
    ))
}

impl Waiting {
    /// What waits in a store that is open for reading, if anything does.
    pub fn of(recovery: &RecoveryReport, warm: &WarmReport) -> Option<Self> {
        if let Some(left) = &recovery.elsewhere {
            let (changes, file) = (left.records, PathBuf::from(&left.place));
            return Some(Waiting { changes, file, take: left.take.clone() });
        }
        let file = warm.left.as_ref().map(|left| left.path.clone()).unwrap_or_default();
        let changes = recovery.unrescued_records;
        (changes > 0).then_some(Waiting { changes, file, take: None })
    }

    /// In words.
    pub fn text(&self) -> String {
        if self.take.is_some() {
            let place = self.file.display().to_string();
            let left = Elsewhere { place, records: self.changes, take: self.take.clone() };
            return format!("{}; {}", left.holds(), left.advice());
        }
        format!(
            "{} that a server of the store had acknowledged and not written when it died {} in the warm log {}; what \
             is told here leaves them out, and opening the store for writing brings them back",
            count(self.changes, "change"),
            if self.changes == 1 { "waits" } else { "wait" },
            self.file.display()
        )
    }
}

/// What a check says of what is no problem.
pub fn notes(recovery: &RecoveryReport, waiting: Option<&Waiting>) -> String {
    let lines = foreign(recovery, false).into_iter().chain(recovery.dropped_lines(LINES_MAX));
    waiting_note(waiting) + &lines.map(|line| format!("note: {line}\n")).collect::<String>()
}

/// The line of that in an answer.
pub fn waiting_note(waiting: Option<&Waiting>) -> String {
    waiting.map_or(String::new(), |waiting| format!("note: {}\n", waiting.text()))
}
