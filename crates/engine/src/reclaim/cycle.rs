//! One cycle: a walk of the map, then the relocation of the candidates that were chosen before it.

use std::mem::replace;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};

use crate::drive::{Engine, State};
use crate::reclaim::mark::Walked;
use crate::reclaim::mark::marked::Marked;

/// Map nodes that may be garbage before a mark runs for their sake: some 100 MiB at most.
const GARBAGE_NODES_MIN: usize = 32_768;

/// What a cycle won.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Won {
    /// Segments given up.
    pub retired: usize,
    /// Whether candidates were tried for which there was no room.
    cramped: bool,
    /// Candidates selected for the next cycle.
    pub selected: usize,
    /// Nobody writes any more: since this sequence number.
    rests: Option<u64>,
}

/// How things stood when a cycle began.
pub(crate) struct Begun {
    /// Calls for reclaim by name that had come.
    pub calls: u64,
    /// Cycles begun before it.
    pub begun: u64,
    /// Free segments.
    pub free: usize,
    /// The last sequence number.
    pub sequence: u64,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// A checkpoint on behalf of reclaim, so that what retires becomes free.
    pub(crate) async fn checkpoint_within_task(&self) -> Result<(), Error> {
        if self.state().closing { Ok(()) } else { self.checkpoint().await }
    }

    /// One walk, and what follows from it; `calls` had come before it began.
    pub(crate) async fn cycle(&self, calls: u64) -> Result<Won, Error> {
        let mut won = Won::default();
        self.select_all();
        let walked = self.mark().await?;
        let emptied = self.retire_empty(&walked);
        let mut marked = self.state().remember(walked);
        if self.inner.options.paranoid {
            for zone in &emptied {
                self.prove_unreferenced(*zone).await?;
            }
        }
        won.retired += emptied.len();
        while !won.cramped && self.state().has_candidates() {
            // Repointing dirties leaves, as many bytes as are moved or more.
            if self.state().is_squeezed() {
                self.checkpoint_within_task().await?;
            }
            let relocated = self.relocate(&mut marked).await?;
            won.retired += relocated.retired;
            won.cramped = relocated.cramped;
            won.rests = relocated.rests;
            if won.rests.is_some() {
                break;
            }
            // Not before the first: who deletes all the time must not keep reclaim from its work.
            if self.state().should_choose_anew() {
                break;
            }
        }
        {
            let mut state = self.state();
            if state.reclaim.asked.is_called_off() {
                won.rests = Some(state.log.sequence);
            }
            state.forget_candidates();
            state.reclaim.counters.cycles += 1;
        }
        if won.rests.is_none() {
            won.selected = self.select(calls);
        }
        Ok(won)
    }
}

impl State {
    /// Keeps of what a mark found live what is said of candidates.
    fn remember(&mut self, walked: Walked) -> Marked {
        self.reclaim.asked.begin_work();
        let marked = Marked::new(walked);
        self.reclaim.mark_bytes = marked.bytes();
        marked
    }

    /// Nothing is being moved any more, nor is to be.
    pub(crate) fn forget_candidates(&mut self) {
        self.reclaim.index.clear();
        self.reclaim.mark_bytes = 0;
        self.reclaim.asked.candidates_are_planned(false);
        self.map.track_leaves(false);
        self.map.watch_displaced(0, self.space.zone_blocks, &[]);
    }

    /// Whether there is something to relocate, and time for it.
    fn has_candidates(&self) -> bool {
        !self.reclaim.index.is_empty() && !self.closing && !self.reclaim.asked.is_called_off()
    }

    /// A cycle failed.
    pub(crate) fn give_up_cycle(&mut self, error: &Error) {
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

    /// Nor will the next cycle win what anybody waits for.
    fn give_up_what_was_asked(&mut self, error: &Error) {
        self.reclaim.asked.answer_all();
        // What cannot be marked cannot be won: whoever waits for room hears of it.
        let lasts = matches!(error.kind, ErrorKind::Io | ErrorKind::Damaged);
        self.reclaim.failure = lasts.then(|| error.clone());
        let begun = self.reclaim.cycles_begun.saturating_sub(1);
        self.reclaim.fruitless_from = Some(begun);
        if error.kind == ErrorKind::Damaged {
            // Nor would others fare better, until something is written.
            self.reclaim.fruitless_at = Some(self.reclaim.begun_at);
        }
        self.reclaim.urgent &= self.reclaim.urgent_from > begun;
    }

    /// Draws the sum of a cycle. Returns whether another follows at once, and whether to pause
    /// first because space is scarce and there is nothing to win.
    pub(crate) fn conclude_cycle(&mut self, won: Won, at: Begun) -> (bool, bool) {
        let Begun { calls, begun, free, sequence } = at;
        (self.reclaim.stumbled, self.reclaim.failure) = (false, None);
        let gained = self.space.free_count() > free || won.retired > 0;
        let fruitless = !gained && won.rests.is_none() && (won.selected == 0 || won.cramped);
        if won.rests.is_some() && self.reclaim.released.reckoned() == 0 {
            // Until somebody writes again, or did meanwhile.
            self.reclaim.fruitless_at = won.rests;
        }
        if fruitless {
            if !won.cramped && self.reclaim.last_pacing.active {
                // Candidates were looked for and not found: else marks would follow one another while
                // clients write.
                self.reclaim.released.give_up();
            }
            // Who reads what is damaged hears of that.
            self.reclaim.failure = self.space.lost_to_outage().cloned();
            self.reclaim.fruitless_from = Some(begun);
            self.reclaim.fruitless_at = Some(sequence);
            // Whoever asked after this cycle began is owed another.
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
        if self.reclaim.asked.is_called_off() || self.is_held_back() {
            self.forget_candidates();
        }
        let pause = idle && self.reclaim_due() && !self.closing;
        (more, pause)
    }

    /// Whether a cycle should run now.
    pub(crate) fn reclaim_due(&self) -> bool {
        let reclaim = &self.reclaim;
        let news = reclaim.fruitless_at != Some(self.log.sequence);
        // Copies of shared nodes that nothing names any more are freed by a mark alone; without
        // this, snapshots that come and go on a mostly empty store would fill memory.
        let garbage = self.map.nodes() > 2 * reclaim.nodes_marked + GARBAGE_NODES_MIN;
        self.reclaim.is_forced()
            || garbage
            || (reclaim.options.enabled
                && (reclaim.urgent || (reclaim.last_pacing.active && news && !self.is_held_back())))
    }
}
