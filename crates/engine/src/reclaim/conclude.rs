//! What follows from a cycle: whether another one is due, and what callers and clients are told.

use std::mem::replace;

use mjolnir_store::{Error, ErrorKind};

use crate::drive::State;
use crate::reclaim::cycle::Won;

/// Map nodes that may be garbage before a mark runs for their sake: some 100 MiB at most.
const GARBAGE_NODES_MIN: usize = 32_768;

/// How things stood when a cycle began.
pub(in crate::reclaim) struct Begun {
    /// Calls for reclaim by name that had come.
    pub calls: u64,
    /// Cycles begun before it.
    pub begun: u64,
    /// Free segments.
    pub free: usize,
    /// The last sequence number.
    pub sequence: u64,
}

impl State {
    /// A cycle failed.
    pub(in crate::reclaim) fn give_up_cycle(&mut self, error: &Error) {
        self.reclaim.counters.copy_forward_failures += 1;
        self.forget_candidates();
        self.reclaim.released.abort_mark();
        self.map.abort_mark();
        self.reclaim.running = false;
        // By one failure of a device nothing is proven.
        if error.kind != ErrorKind::Io || replace(&mut self.reclaim.stumbled, true) {
            self.give_up_what_was_asked(error);
        }
        self.update_pacing();
    }

    /// The next cycle would win nothing either: answers callers and clients that wait for it.
    fn give_up_what_was_asked(&mut self, error: &Error) {
        self.reclaim.asked.answer_all();
        // Without a mark nothing can be won: clients that wait for room hear why.
        let lasts = matches!(error.kind, ErrorKind::Io | ErrorKind::Damaged);
        self.reclaim.failure = lasts.then(|| error.clone());
        let begun = self.reclaim.cycles_begun.saturating_sub(1);
        self.reclaim.fruitless_from = Some(begun);
        if error.kind == ErrorKind::Damaged {
            // Other cycles would fail, too, until something is written.
            self.reclaim.fruitless_at = Some(self.reclaim.begun_at);
        }
        self.reclaim.urgent &= self.reclaim.urgent_from > begun;
    }

    /// Concludes a cycle. Returns whether another one follows at once, and whether to pause first because space
    /// is scarce and there is nothing to win.
    pub(in crate::reclaim) fn conclude_cycle(&mut self, won: Won, at: Begun) -> (bool, bool) {
        let Begun { calls, begun, free, sequence } = at;
        (self.reclaim.stumbled, self.reclaim.failure) = (false, None);
        let gained = self.space.free_count() > free || won.retired > 0;
        let fruitless = !gained && won.rests.is_none() && (won.selected == 0 || won.cramped);
        if won.rests.is_some() && self.reclaim.released.reckoned() == 0 {
            // Reclaim rests until somebody writes, or goes on if somebody did meanwhile.
            self.reclaim.fruitless_at = won.rests;
        }
        if fruitless {
            if !won.cramped && self.reclaim.last_pacing.active {
                // Candidates were looked for and not found: else marks would follow one another while
                // clients write.
                self.reclaim.released.give_up();
            }
            // An outage is told to whoever lacks space; damage, to whoever reads the data.
            self.reclaim.failure = self.space.lost_to_outage().cloned();
            self.reclaim.fruitless_from = Some(begun);
            self.reclaim.fruitless_at = Some(sequence);
            // A client that asked after this cycle began is owed another one.
            self.reclaim.urgent &= self.reclaim.urgent_from > begun;
            self.reclaim.asked.answer(calls);
        } else if self.space.free_count() > 2 * self.space.reserve() {
            self.reclaim.urgent = false;
        }
        self.reclaim.asked.answer_what_is_over();
        self.update_pacing();
        let idle = fruitless || (won.selected == 0 && won.retired == 0);
        let more = !self.closing && self.failed.is_none() && !idle && self.reclaim_due();
        if !more && (idle || self.closing) {
            self.reclaim.asked.answer(calls);
        }
        // Bad segments may have taken what is reserved for reclaim: clients must not wait for it.
        let is_starved = fruitless && won.cramped && self.space.bad().next().is_some();
        if is_starved || self.reclaim.asked.is_called_off() || self.is_held_back() {
            self.forget_candidates();
        }
        let pause = idle && self.reclaim_due() && !self.closing;
        (more, pause)
    }

    /// Whether a cycle should run now.
    pub(in crate::reclaim) fn reclaim_due(&self) -> bool {
        let reclaim = &self.reclaim;
        let news = reclaim.fruitless_at != Some(self.log.sequence);
        // Copies of shared nodes that nothing names any more are freed by a mark alone; without
        // this, snapshots that come and go on a mostly empty store would fill memory.
        let garbage = self.map.nodes() > 2 * reclaim.nodes_marked + GARBAGE_NODES_MIN;
        self.reclaim.is_forced()
            || garbage
            || (reclaim.options.enabled
                && (reclaim.urgent
                    || (reclaim.last_pacing.active && news && !self.is_held_back())
                    || (self.space.has_bad_data() && news)))
    }
}
