//! What callers of reclaim asked for, and the plan that answers them: `reclaim/callers.rs` says how.

use std::collections::BTreeMap;
use std::mem::replace;

use mjolnir_units::{Instant, ZoneId};

use crate::space::{Segment, SegmentState, Space};

/// Cycles that a plan may take beyond those that its segments fill twice over: where clients lack space
/// others come first, and no plan is to wait for ever.
const CYCLES_SPARE: usize = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Asked {
    /// Calls so far, and how many of the first ones have been answered.
    calls: u64,
    answered: u64,
    /// Callers that wait.
    callers: usize,
    /// The highest incarnation, and the log's sequence number, when the last call came.
    incarnation: u64,
    sequence: u64,
    /// The plan is for the first so many calls.
    planned: u64,
    /// For the first so many calls nothing is left to be moved: they are answered once the cycle has ended.
    over: u64,
    /// Segments that are still to be moved, with their incarnations.
    plan: BTreeMap<ZoneId, u64>,
    /// Cycles that the plan may still take.
    cycles_left: usize,
    /// The candidates are those of the plan.
    candidates: bool,
    /// When reclaim went to work again after its last rest.
    working_since: Option<Instant>,
    /// Clients' requests so far, when it was last asked whether there were more.
    requests_seen: u64,
    /// Segments given up, and blocks moved, for all calls together.
    segments: u64,
    moved_blocks: u64,
}

/// Calls and their answers.
impl Asked {
    /// Somebody calls, when the highest incarnation, the log's sequence number and the number of clients' requests
    /// are these. Returns the number of the call.
    pub fn call(&mut self, incarnation: u64, sequence: u64, requests: u64) -> u64 {
        self.requests_seen = requests;
        self.calls += 1;
        self.callers += 1;
        (self.incarnation, self.sequence) = (incarnation, sequence);
        self.calls
    }

    /// A caller leaves, answered or not. Returns whether this calls off what was asked for: nobody else waits
    /// for it.
    pub fn leave(&mut self) -> bool {
        self.callers -= 1;
        let called_off = self.callers == 0 && self.is_open();
        if called_off {
            self.answer_all();
        }
        called_off
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Whether somebody waits for what was asked for.
    pub fn is_open(&self) -> bool {
        self.calls > self.answered
    }

    /// Whether a call has been answered, by its number.
    pub fn is_answered(&self, call: u64) -> bool {
        self.answered >= call
    }

    /// Whether the candidates are moved for callers that have left.
    pub fn is_called_off(&self) -> bool {
        self.candidates && !self.is_open()
    }

    /// Nothing more is to be won for the first `calls` calls.
    pub fn answer(&mut self, calls: u64) {
        self.answered = self.answered.max(calls.min(self.calls));
        if self.answered >= self.planned {
            self.plan.clear();
        }
    }

    /// A cycle has ended: those for whom nothing is left have what they asked for.
    pub fn answer_what_is_over(&mut self) {
        self.answer(self.over);
    }

    /// The same for all that came so far.
    pub fn answer_all(&mut self) {
        self.answer(self.calls);
    }
}

/// The plan.
impl Asked {
    /// Whether a plan is due for calls that came before a mark, the first `calls` of all.
    pub fn is_plan_due(&self, calls: u64) -> bool {
        self.is_open() && self.plan.is_empty() && calls > self.planned
    }

    /// Whether a segment was there when the last call came, and, unless `open_ones` count too, was sealed then.
    pub fn was_there(&self, segment: &Segment, open_ones: bool) -> bool {
        let sealed = open_ones || segment.sealed <= self.sequence;
        segment.incarnation <= self.incarnation && sealed
    }

    /// Makes a plan of these segments, for the first `calls` calls. A cycle moves up to `cycle_segments` of them.
    pub fn make_plan(
        &mut self,
        zones: impl IntoIterator<Item = ZoneId>,
        space: &Space,
        calls: u64,
        cycle_segments: usize,
    ) {
        self.plan = zones.into_iter().map(|zone| (zone, space.get(zone).incarnation)).collect();
        self.planned = calls;
        let cycles = self.plan.len().div_ceil(cycle_segments.max(1));
        self.cycles_left = 2 * cycles + CYCLES_SPARE;
    }

    /// Whether a segment is to be moved for callers.
    pub fn is_planned(&self, zone: ZoneId, segment: &Segment) -> bool {
        self.plan.get(&zone) == Some(&segment.incarnation)
    }

    /// The candidates were chosen, out of the plan or not.
    pub fn candidates_are_planned(&mut self, planned: bool) {
        self.candidates = planned;
    }

    /// A cycle has ended: what it did of the plan is done.
    pub fn follow_plan(&mut self, space: &Space) {
        self.plan.retain(|zone, incarnation| {
            let segment = space.get(*zone);
            segment.state == SegmentState::Sealed && segment.incarnation == *incarnation
        });
        self.cycles_left = self.cycles_left.saturating_sub(1);
        if self.cycles_left == 0 {
            self.plan.clear();
        }
        if self.plan.is_empty() {
            self.over = self.planned;
        }
    }

    /// Nothing of the plan can be moved any more.
    pub fn end_plan(&mut self) {
        self.plan.clear();
        self.over = self.planned;
    }
}

/// What was done for callers, and rests meanwhile.
impl Asked {
    /// A segment was given up.
    pub fn retired(&mut self, segment: &Segment) {
        if self.is_open() && segment.incarnation <= self.incarnation {
            self.segments += 1;
        }
    }

    /// Blocks of a segment were moved.
    pub fn moved(&mut self, zone: ZoneId, blocks: u64) {
        if self.plan.contains_key(&zone) {
            self.moved_blocks += blocks;
        }
    }

    /// Segments given up, and blocks moved, for all calls together.
    pub fn won(&self) -> (u64, u64) {
        (self.segments, self.moved_blocks)
    }

    /// Work that clients are to be left room beside begins.
    pub fn begin_work(&mut self) {
        self.working_since = None;
    }

    /// A rest has ended now: reclaim goes to work again.
    pub fn end_rest(&mut self, now: Instant) {
        self.working_since = Some(now);
    }

    /// A rest begins. Returns when reclaim went to work after the last one, if there was one before this work.
    pub fn begin_rest(&mut self) -> Option<Instant> {
        self.working_since.take()
    }

    /// Whether clients have requested anything since this was last asked; `requests` is how often they have so far.
    pub fn saw_more(&mut self, requests: u64) -> bool {
        replace(&mut self.requests_seen, requests) != requests
    }
}
