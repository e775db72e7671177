//! What damage took, for people: how much in all, and the first of it. `--json` has all of it.

use std::collections::BTreeMap;

use mjolnir_store::report::{CheckReport, LogLoss, Loss, MissingPart};

use super::reads::place;
use crate::output::{bytes, count};

/// The most lines of one sort.
const LINES_MAX: usize = 20;

/// The same of details that follow from what was told before.
const DETAILS_MAX: usize = 5;

/// The first lines, and how many more there are.
pub(super) fn first(all: impl ExactSizeIterator<Item = String>) -> String {
    few(all, LINES_MAX)
}

/// At most so many of them.
fn few(all: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let mut text: String = all.take(most).map(|line| line + "\n").collect();
    if more > 0 {
        text += &format!("… and {more} more; --json lists all\n");
    }
    text
}

/// What a check found of a store that became shorter: first that, then what is lost by it, then the rest, which
/// mostly follows from it. The first `warnings` of the problems are about what holds the store.
pub(super) fn shortened(report: &CheckReport, part: &MissingPart, warnings: u64) -> String {
    let problem = |what: &String| format!("problem: {what}");
    let (cause, others) =
        report.problems.split_at_checked(warnings as usize).unwrap_or((&[], &report.problems));
    let mut text: String = cause.iter().map(|what| problem(what) + "\n").collect();
    text += &missing(part);
    text += &losses(&report.losses);
    text += &report.log.as_ref().map_or(String::new(), dropped);
    text += &few(others.iter().map(problem), DETAILS_MAX);
    text + &few(met(report), DETAILS_MAX)
}

/// Errors of reads that a check met.
pub(super) fn met(report: &CheckReport) -> impl ExactSizeIterator<Item = String> {
    report.met.iter().map(|met| format!("met: {}", place(met)))
}

/// What a check found wrong.
/// The first `warnings` of its problems are about what holds the store.
pub(super) fn problems(report: &CheckReport, warnings: u64) -> String {
    let problem = |what: &String| format!("problem: {what}");
    let Some(log) = &report.log else { return first(report.problems.iter().map(problem)) };
    // What is lost of the log comes first among the problems, line by line.
    let whole = log.lines(usize::MAX);
    let (warnings, others) =
        report.problems.split_at_checked(warnings as usize).unwrap_or((&[], &report.problems));
    let others = others.strip_prefix(&whole[..]).unwrap_or(others);
    let warnings: String = warnings.iter().map(|what| problem(what) + "\n").collect();
    let lines: String = log.lines(LINES_MAX).iter().map(|line| problem(line) + "\n").collect();
    warnings + &lines + &first(others.iter().map(problem))
}

/// Ranges that cannot be read any more.
pub(super) fn losses(losses: &[Loss]) -> String {
    let line = |loss: &Loss| {
        let way = match loss.target.contains('@') {
            true => "it cannot be mended in a snapshot: copy the rest, and delete it",
            false => "restore it from a snapshot or a backup, or trim it",
        };
        format!("lost: {}:{}+{} ({way})", loss.target, loss.offset, loss.length)
    };
    totals(losses) + &first(losses.iter().map(line))
}

/// Ranges that hold something older than was written last.
pub(super) fn dropped(log: &LogLoss) -> String {
    let line = |loss: &Loss| {
        let Loss { target, offset, length } = loss;
        format!("lost: {target}:{offset}+{length} (it holds what it held before)")
    };
    totals(&log.ranges) + &first(log.ranges.iter().map(line))
}

/// What the part held that is missing.
pub(super) fn missing(missing: &MissingPart) -> String {
    let MissingPart { in_use, unsure, free } = missing;
    let said = [
        (in_use, "in use there: what is lost of that is listed below, if anything is"),
        (
            unsure,
            "perhaps written to since the last checkpoint, which nothing tells now: the store was not \
             closed in order",
        ),
        (free, "free there: nothing is lost"),
    ];
    let line = |(zones, what): (&Vec<u32>, &str)| match zones.len() {
        0 => String::new(),
        1 => format!("missing: segment {}, {what}\n", zones[0]),
        _ => format!("missing: segments {}, {what}\n", ranges(zones)),
    };
    said.into_iter().map(line).collect()
}

/// Numbers in order, those one after another as a range.
fn ranges(numbers: &[u32]) -> String {
    let run = |run: &[u32]| match run {
        [only] => only.to_string(),
        _ => format!("{} to {}", run[0], run[run.len() - 1]),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).map(run).collect::<Vec<_>>().join(", ")
}

/// What a salvage accepts.
pub fn log_loss(log: &LogLoss) -> String {
    let lines: String = log.lines(LINES_MAX).iter().map(|line| format!("{line}\n")).collect();
    lines + &dropped(log)
}

/// How much it is where it is several ranges: in all, and in each volume and snapshot.
fn totals(losses: &[Loss]) -> String {
    if losses.len() < 2 {
        return String::new();
    }
    let mut of: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for loss in losses {
        let (ranges, bytes) = of.entry(&loss.target).or_default();
        (*ranges, *bytes) = (*ranges + 1, bytes.saturating_add(loss.length));
    }
    let sum =
        |(ranges, length): (u64, u64)| format!("{}, {}", count(ranges, "range"), bytes(length));
    let all = losses.iter().fold(0u64, |all, loss| all.saturating_add(loss.length));
    let all = match of.len() {
        1 => String::new(),
        _ => format!("lost in all: {}\n", sum((losses.len() as u64, all))),
    };
    all + &first(of.iter().map(|(target, of)| format!("lost in {target}: {}", sum(*of))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(target: &str, ranges: u64) -> Vec<Loss> {
        let at = |index| Loss { target: target.to_owned(), offset: index * 8192, length: 4096 };
        (0..ranges).map(at).collect()
    }

    #[test]
    fn what_is_missing_is_told_by_segments() {
        let part = MissingPart { in_use: vec![3, 4, 5, 9], unsure: vec![], free: vec![7] };
        let text = missing(&part);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("missing: segments 3 to 5, 9, in use there: "), "{text}");
        assert_eq!(lines[1], "missing: segment 7, free there: nothing is lost");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn many_losses_are_summed_up() {
        let many = [lost("v", 1000), lost("w@a", 24)].concat();
        let text = losses(&many);
        assert!(text.starts_with("lost in all: 1024 ranges, 4 MiB\n"), "{text}");
        for part in
            ["lost in v: 1000 ranges", "lost in w@a: 24 ranges, 96 KiB", "lost: v:8192+4096"]
        {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(text.ends_with("… and 1004 more; --json lists all\n"), "{text}");
        assert_eq!(text.lines().count(), 3 + LINES_MAX + 1);
    }

    #[test]
    fn one_loss_is_one_line_and_a_few_are_all_shown() {
        assert_eq!(losses(&lost("v", 1)).lines().count(), 1);
        let few = losses(&lost("v", 3));
        assert_eq!(few.lines().count(), 4, "{few}");
        assert!(few.starts_with("lost in v: 3 ranges, 12 KiB\n"), "{few}");
    }

    #[test]
    fn a_log_that_lost_much_is_short_to_tell_and_says_how_far_it_is_whole() {
        let changes = (0..500).map(|number| format!("volume v{number} was created")).collect();
        let log = LogLoss { whole_to: 77, changes, ..LogLoss::default() };
        let label = ["a label is damaged".to_owned()].into_iter();
        let problems = label.chain(log.lines(usize::MAX)).chain(["another".to_owned()]).collect();
        let report = CheckReport { problems, log: Some(log), ..CheckReport::default() };
        let text = super::problems(&report, 1);
        assert!(text.lines().count() <= LINES_MAX + 4, "{text}");
        for part in ["whole up to record 77", "480 more", "problem: another\n", "a label"] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }
}
