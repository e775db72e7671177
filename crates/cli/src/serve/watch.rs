//! Telling the operator, in time, what is about to go wrong.

use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::or;
use mjolnir_device::Runtime;
use mjolnir_host::{HostEngine, HostRuntime, Recorder};

use super::clients::Stop;
use crate::complaints::complain;
use crate::output;

/// How often to look.
const PERIOD: Duration = Duration::from_secs(1);

/// Periods between two words about damage, or about requests refused, of which there may be many.
const MANY_PERIODS: u32 = 10;

/// Sends what is recorded on its way, and warns on standard error when that fails, when space gets low
/// and when reclaim or the store fails, once each time, and now and then while damaged blocks are being read
/// or requests are refused for want of space.
pub async fn watch(
    engine: HostEngine,
    recorder: Rc<Recorder>,
    runtime: HostRuntime,
    stop: Rc<Stop>,
) {
    let (mut was_low, mut was_in_vain, mut was_failed) = (false, false, false);
    let (mut damaged, mut quiet) = (0, 0);
    let (mut refused, mut seen, mut quiet_refusals, mut was_full) = (0, 0, 0, false);
    while !stop.is_requested() {
        let stats = engine.stats();
        let space = &stats.space;
        if space.low && !was_low {
            complain(&format!(
                "warning: space is low: {} are live, {} can be won and {} are free of {}; trim or \
                 delete something, or grow the store",
                output::bytes(space.live_bytes),
                output::bytes(space.stale_bytes + space.unused_bytes + space.retiring_bytes),
                output::bytes(space.free_bytes),
                output::bytes(space.total_bytes),
            ));
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
            complain(&format!("there is room again: {} are free", output::bytes(space.free_bytes)));
            (refused, was_full) = (stats.room_refusals, false);
        }
        if let Some(why) = stats.reclaim_failed.as_ref().filter(|_| !was_in_vain) {
            complain(&format!("error: no space is won back, since reclaim fails: {why}"));
        }
        was_in_vain = stats.reclaim_failed.is_some();
        quiet = u32::saturating_sub(quiet, 1);
        if stats.checksum_errors > damaged && quiet == 0 {
            let times = output::count(stats.checksum_errors - damaged, "time");
            complain(&format!(
                "error: blocks that were read did not match their checksums ({times}, those that a \
                 scrub met included): the medium returns other bytes than were written; \
                 `mjolnir scrub` says what is affected"
            ));
            (damaged, quiet) = (stats.checksum_errors, MANY_PERIODS);
        }
        if let Some(why) = stats.failed.filter(|_| !was_failed) {
            complain(&format!(
                "error: {why} (reads go on; once that is mended, stop this server and start it anew)"
            ));
            was_failed = true;
        }
        if let Some(why) = recorder.tend() {
            complain(&format!("warning: {why}; serving goes on"));
        }
        or(runtime.sleep(PERIOD), stop.requested()).await;
    }
}
