//! The task of reclaim: runs cycles while there is work, and rests.

use std::mem::replace;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::Engine;
use crate::reclaim::conclude::Begun;
use crate::space::SegmentState;

/// A cycle that won nothing is followed by a rest of this many times its processor time,
const REST_CYCLES: u32 = 4;

/// but no shorter than this.
const REST_MIN: Duration = Duration::from_millis(20);

/// The shortest rest after a cycle that failed.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(100);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that collects while there is reason to.
    pub(crate) async fn reclaim_task(self) {
        loop {
            let listener = self.inner.reclaim_wanted.listen();
            let (ends, wanted) = {
                let mut state = self.state();
                state.update_pacing();
                let ends = state.failed.is_some() || state.closing;
                (ends, state.reclaim_due())
            };
            if ends {
                let mut state = self.state();
                state.reclaim.running = false;
                state.forget_candidates();
                drop(state);
                self.notify();
                return;
            }
            if !wanted {
                {
                    let mut state = self.state();
                    state.reclaim.running = false;
                    state.reclaim.rhythm.rest();
                }
                self.notify();
                listener.await;
                continue;
            }
            // Otherwise it would take calls that are meant for listeners within a cycle.
            drop(listener);
            self.state().reclaim.running = true;
            let scanned_ns = self.state().reclaim.counters.scan_cpu_ns;
            if let Err(error) = self.collect_until_done().await {
                // The old data is still in force. Try again a little later, unless the store
                // failed.
                let scanned_ns = self.state().reclaim.counters.scan_cpu_ns - scanned_ns;
                self.note_mark_failed(&error);
                self.state().give_up_cycle(&error);
                self.notify();
                if self.state().failed.is_none() {
                    let rest = REST_CYCLES * Duration::from_nanos(scanned_ns);
                    self.runtime().sleep(rest.max(REST_AFTER_FAILURE)).await;
                }
            }
        }
    }

    /// Cycles until pacing wants no more, or there is nothing to win.
    async fn collect_until_done(&self) -> Result<(), Error> {
        loop {
            let (calls, begun, free, sequence, scanned_ns) = {
                let mut state = self.state();
                let begun = state.reclaim.cycles_begun;
                state.reclaim.cycles_begun += 1;
                state.reclaim.begun_at = state.log.sequence;
                let scanned_ns = state.reclaim.counters.scan_cpu_ns;
                let free = state.space.free_count();
                (state.reclaim.asked.calls(), begun, free, state.log.sequence, scanned_ns)
            };
            let won = self.cycle(calls).await?;
            if won.retired > 0 {
                self.inner.checkpoint_wanted.notify(1);
            }
            let relieved = {
                let state = self.state();
                won.retired > 0 && state.space.count(SegmentState::Retiring) > 0
            };
            if relieved && (self.state().reclaim.urgent || won.selected == 0) {
                self.checkpoint_within_task().await?;
            }
            let (more, pause) =
                self.state().conclude_cycle(won, Begun { calls, begun, free, sequence });
            self.notify();
            if more {
                continue;
            }
            if pause {
                // Scarce, but nothing to win until clients overwrite more: look again now and then.
                let scanned_ns = self.state().reclaim.counters.scan_cpu_ns - scanned_ns;
                self.rest_unless_asked(Duration::from_nanos(scanned_ns)).await;
            }
            if !self.state().reclaim.index.is_empty() {
                continue;
            }
            return Ok(());
        }
    }

    /// Rests after a scan that found nothing, but not while somebody asks for space. Once much was deleted, it
    /// rests for no longer than the scan took, and until less is being deleted.
    async fn rest_unless_asked(&self, scanned: Duration) {
        let mut rest = pin!(self.runtime().sleep((REST_CYCLES * scanned).max(REST_MIN)));
        let mut look = pin!(self.runtime().sleep(scanned.max(REST_MIN)));
        let mut reckoned = self.state().reclaim.released.reckoned();
        loop {
            let asked = self.inner.reclaim_wanted.listen();
            {
                let state = self.state();
                if state.reclaim.urgent
                    || state.reclaim.is_forced()
                    || state.closing
                    || state.failed.is_some()
                {
                    return;
                }
            }
            match select(&mut rest, select(&mut look, asked)).await {
                Either::Left(_) => return,
                Either::Right((Either::Right(_), _)) => {}
                Either::Right((Either::Left(_), _)) => {
                    let state = self.state();
                    let before = replace(&mut reckoned, state.reclaim.released.reckoned());
                    // While much is being deleted, a mark that begins would not count it.
                    if state.should_choose_anew() && reckoned - before < state.much_blocks() {
                        return;
                    }
                    drop(state);
                    look.set(self.runtime().sleep(REST_MIN));
                }
            }
        }
    }
}
