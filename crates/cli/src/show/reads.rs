//! Errors of reads, for people: how many, what was read for, and where.

use mjolnir_store::report::{CheckReport, ReadError, ReadErrorCounts, ReadPurpose, Stats};

use super::damage::{first, met};

/// Of how many reads for which purpose something is told, in parentheses; nothing of none.
pub fn by_purpose(counts: &ReadErrorCounts) -> String {
    let met = ReadPurpose::ALL.iter().filter(|purpose| counts.of(**purpose) > 0);
    let parts: Vec<String> =
        met.map(|purpose| format!("{} {}", purpose.name(), counts.of(*purpose))).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

/// Where an error was met, what was read for, and what is wrong.
pub fn place(error: &ReadError) -> String {
    let ReadError { purpose, block, segment, message, .. } = error;
    let purpose = purpose.name();
    format!("for {purpose}, at device block {block} (segment {segment}): {message}")
}

/// What `stats` says of them.
pub(super) fn of_stats(stats: &Stats) -> String {
    let mut text = format!(
        "errors of device reads: {} failed{}, {} did not match their checksums{}\n",
        stats.read_errors,
        by_purpose(&stats.read_errors_by),
        stats.checksum_errors,
        by_purpose(&stats.checksum_errors_by),
    );
    if let Some(last) = &stats.last_read_error {
        text += &format!(
            "  the last, {:.0} s after opening, {}\n",
            last.at_ms as f64 / 1e3,
            place(last)
        );
    }
    text
}

/// What `check` says of them: of a store that is served always, else only if there were any.
pub(super) fn of_check(online: bool, report: &CheckReport) -> String {
    let mut text = String::new();
    if online || report.read_errors + report.checksum_errors > 0 {
        text += &format!(
            "device reads since the store was opened: {} failed, {} did not match their checksums\n",
            report.read_errors, report.checksum_errors
        );
    }
    // Of a store that became shorter these are no more than details.
    text + &if report.missing.is_none() { first(met(report)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_without_errors_are_left_out() {
        let counts = ReadErrorCounts { client: 2, scrub: 1, ..ReadErrorCounts::default() };
        assert_eq!(by_purpose(&counts), " (client 2, scrub 1)");
        assert_eq!(by_purpose(&ReadErrorCounts::default()), "");
        assert_eq!(of_check(false, &CheckReport::default()), "");
        let all =
            "device reads since the store was opened: 0 failed, 0 did not match their checksums\n";
        assert_eq!(of_check(true, &CheckReport::default()), all);
    }
}
