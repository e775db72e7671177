//! Telling the operator, in time, what is about to go wrong.

use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::or;
use mjolnir_device::Runtime;
use mjolnir_host::{HostRuntime, Recorder};
use mjolnir_store::Maintenance;
use mjolnir_store::report::{ReadErrorKind, Stats};

use super::lines::Lines;
use crate::complaints::complain;
use crate::output;
use crate::show::{by_purpose, place};
use crate::waiting::Stop;

/// How often to look.
const PERIOD: Duration = Duration::from_secs(1);

/// Periods between two words about damage, or about requests refused, of which there may be many.
const MANY_PERIODS: u32 = 10;

/// How many of something that may come often were told: at once, and then once in [`MANY_PERIODS`].
#[derive(Default)]
struct Rationed {
    told: u64,
    quiet: u32,
}

impl Rationed {
    /// A period has passed, and so many came in all: those to tell of now.
    fn due(&mut self, count: u64) -> Option<u64> {
        self.quiet = self.quiet.saturating_sub(1);
        let more = count.checked_sub(self.told).filter(|more| *more > 0 && self.quiet == 0)?;
        (self.told, self.quiet) = (count, MANY_PERIODS);
        Some(more)
    }

    /// What was not told yet is, whenever the last was.
    fn hurry(&mut self) {
        self.quiet = 0;
    }
}

/// What was told of reads that failed, and of those that did not match their checksums.
#[derive(Default)]
struct Reads {
    failed: Rationed,
    wrong: Rationed,
}

impl Reads {
    fn tell(&mut self, stats: &Stats) {
        let last = stats.last_read_error.as_ref();
        let last_of = |kind| {
            let last = last.filter(|last| last.kind == kind);
            last.map_or(String::new(), |last| format!("; the last, {}", place(last)))
        };
        if let Some(more) = self.failed.due(stats.read_errors) {
            complain(&format!(
                "error: {} of the device failed, since the store was opened {}{}{}; `mjolnir check` \
                 and `mjolnir scrub` say what is affected",
                output::count(more, "read"),
                stats.read_errors,
                by_purpose(&stats.read_errors_by),
                last_of(ReadErrorKind::Failed),
            ));
        }
        if let Some(more) = self.wrong.due(stats.checksum_errors) {
            let times = output::count(more, "time");
            complain(&format!(
                "error: blocks that were read did not match their checksums ({times}, those that a \
                 scrub met included): the medium returns other bytes than were written; \
                 `mjolnir scrub` says what is affected{}",
                last_of(ReadErrorKind::Mismatch),
            ));
        }
    }
}

/// Sends what is recorded on its way, and warns on standard error when that fails, when space gets low
/// and when reclaim or the store fails, once each time, and now and then while reads fail, damaged blocks are
/// being read or requests are refused for want of space.
pub async fn watch(
    store: impl Maintenance,
    recorder: Rc<Recorder>,
    runtime: HostRuntime,
    lines: Rc<Lines<HostRuntime>>,
    stop: Rc<Stop>,
) {
    let (mut was_low, mut was_in_vain, mut was_failed) = (false, false, false);
    let (mut reads, mut writes, mut was_away) = (Reads::default(), Rationed::default(), false);
    let (mut refused, mut seen, mut quiet_refusals, mut was_full) = (0, 0, 0, false);
    while !stop.is_requested() {
        let stats = store.stats();
        let space = &stats.space;
        if space.low && !was_low {
            let line = format!(
                "warning: space is low: {} are live, {} can be won and {} are free of {}; trim or \
                 delete something, or grow the store",
                output::bytes(space.live_bytes),
                output::bytes(space.stale_bytes + space.unused_bytes + space.retiring_bytes),
                output::bytes(space.free_bytes),
                output::bytes(space.total_bytes),
            );
            lines.say("about space that is low", "", &line);
        }
        was_low = space.low;
        quiet_refusals = u32::saturating_sub(quiet_refusals, 1);
        if stats.room_refusals > refused && quiet_refusals == 0 {
            let count = output::count(stats.room_refusals - refused, "request");
            let then = match &stats.reclaim_failed {
                None => "; trim or delete something, or grow the store",
                Some(_) => ", and reclaim fails",
            };
            complain(&format!(
                "error: {count} refused, since no space is left but what reclaim needs{then}"
            ));
            (refused, quiet_refusals, was_full) = (stats.room_refusals, MANY_PERIODS, true);
        }
        let more_refused = std::mem::replace(&mut seen, stats.room_refusals) < stats.room_refusals;
        let has_room = space.free_bytes > space.reserved_bytes && stats.reclaim_failed.is_none();
        if was_full && has_room && !more_refused {
            let line = format!("there is room again: {} are free", output::bytes(space.free_bytes));
            lines.say("about room that there is again", "", &line);
            (refused, was_full) = (stats.room_refusals, false);
        }
        if let Some(why) = stats.reclaim_failed.as_ref().filter(|_| !was_in_vain) {
            let line = format!("error: no space is won back, since reclaim fails: {why}");
            lines.say("about reclaim that fails", "", &line);
        }
        was_in_vain = stats.reclaim_failed.is_some();
        reads.tell(&stats);
        if let Some(more) = writes.due(stats.write_errors) {
            let last = stats.last_write_error.as_deref().unwrap_or("unknown");
            complain(&format!(
                "warning: {} of the device failed; nothing is lost, and what they were to hold is written \
                 elsewhere or later; the last: {last}",
                output::count(more, "write"),
            ));
        }
        if let Some(outage) = stats.outage.as_ref().filter(|_| !was_away) {
            lines.say("about an outage", "", &format!("warning: {outage}"));
        }
        if was_away && stats.outage.is_none() {
            lines.say("about the end of an outage", "", "the device works again");
        }
        was_away = stats.outage.is_some();
        if let Some(why) = stats.failed.filter(|_| !was_failed) {
            complain(&format!(
                "error: {why} (reads go on; once that is mended, stop this server and start it anew)"
            ));
            was_failed = true;
        }
        if let Some(why) = recorder.tend() {
            complain(&format!("warning: {why}; serving goes on"));
        }
        lines.tend();
        or(runtime.sleep(PERIOD), stop.requested()).await;
    }
    // Nobody else tells what was met last.
    reads.failed.hurry();
    reads.wrong.hurry();
    reads.tell(&store.stats());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_later_ones_together() {
        let mut rationed = Rationed::default();
        assert_eq!(rationed.due(0), None);
        assert_eq!(rationed.due(2), Some(2));
        let later: Vec<Option<u64>> =
            (3..=3 + u64::from(MANY_PERIODS)).map(|n| rationed.due(n)).collect();
        let last = MANY_PERIODS as usize - 1;
        assert!(later[..last].iter().all(Option::is_none), "{later:?}");
        assert_eq!(later[last], Some(u64::from(MANY_PERIODS)));
        assert_eq!(rationed.due(100), None);
        rationed.hurry();
        assert!(rationed.due(100).is_some());
        assert_eq!(rationed.due(100), None);
    }
}
