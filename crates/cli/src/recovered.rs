//! Saying what opening a store after a crash left out, and what it found damaged.

use mjolnir_device::{Device, Runtime};
use mjolnir_engine::{Engine, RecoveryReport};

use crate::complaints::complain;

/// Lines of one sort.
const LINES_MAX: usize = 20;

/// Tells it on standard error; nothing, if there is nothing to tell.
pub fn tell<D: Device, R: Runtime>(engine: &Engine<D, R>) {
    lines(&engine.recovery()).iter().for_each(|line| complain(line));
}

fn lines(recovery: &RecoveryReport) -> Vec<String> {
    let mut lines = Vec::new();
    match recovery.rescued_records {
        0 => {}
        1 => lines.push(
            "note: 1 change that its last server had acknowledged and not written is back".into(),
        ),
        records => lines.push(format!(
            "note: {records} changes that its last server had acknowledged and not written are back"
        )),
    }
    if recovery.unrescued_records > 0 {
        lines.push(format!(
            "warning: {} changes that a server of the store had acknowledged and not written when it died are \
             not here: they are brought back when the store is opened for writing",
            recovery.unrescued_records
        ));
    }
    lines.extend(left(recovery).iter().map(|what| format!("warning: {what}")));
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

/// What is said of warm logs of which nothing was taken.
fn left(recovery: &RecoveryReport) -> Vec<String> {
    let foreign = recovery.foreign.as_ref().map(|left| {
        format!(
            "{}. They do not belong to the store as it is now, and are not taken: it was opened for writing without \
             them since, or an older copy was put in its place. Opening it for writing removes them",
            left.holds()
        )
    });
    let elsewhere =
        recovery.elsewhere.as_ref().map(|left| format!("{}; {}", left.holds(), left.advice()));
    foreign.into_iter().chain(elsewhere).collect()
}

/// What a check says of what is no problem.
pub fn notes(recovery: &RecoveryReport) -> String {
    let waiting = match recovery.unrescued_records {
        0 => None,
        records => Some(format!(
            "note: {records} changes that a server acknowledged and had not written when it died are not counted: \
             they are brought back when the store is opened for writing\n"
        )),
    };
    let dropped = recovery.dropped_lines(LINES_MAX);
    let left = left(recovery).into_iter().map(|what| format!("note: {what}\n"));
    waiting
        .into_iter()
        .chain(left)
        .chain(dropped.iter().map(|line| format!("note: {line}\n")))
        .collect()
}
