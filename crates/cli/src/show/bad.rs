//! What is told of segments that the device failed to write to.

use mjolnir_store::report::{BadSegment, Stats};

use crate::output::{bytes, count};

/// How many segments are named.
const NAMED: usize = 20;

pub fn of_stats(stats: &Stats) -> String {
    let mut text = String::new();
    if stats.write_errors > 0 {
        let last = stats.last_write_error.as_deref().unwrap_or("unknown");
        text += &format!(
            "writes of the device that failed: {}; {} written elsewhere; the last: {last}\n",
            stats.write_errors,
            count(stats.groups_logged_again, "group"),
        );
    }
    if stats.segments_bad > 0 {
        text += &format!(
            "bad segments: {}, {} of them out of use ({}); `mjolnir scrub --retry-bad` tries these\n",
            stats.segments_bad,
            stats.segments_bad - stats.segments_bad_in_use,
            bytes(stats.space.bad_bytes),
        );
    }
    text
}

pub fn of_check(bad: &[BadSegment]) -> String {
    let mut text = String::new();
    for BadSegment { segment, failures, in_use, why } in bad.iter().take(NAMED) {
        let state = if *in_use { "still in use" } else { "out of use" };
        let times = if *failures == 1 { "once".into() } else { format!("{failures} times") };
        text += &format!("bad: segment {segment} failed {times} and is {state}: {why}\n");
    }
    if bad.len() > NAMED {
        text += &format!("bad: {} in all\n", count(bad.len() as u64, "segment"));
    }
    text
}
