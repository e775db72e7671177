//! What callers of reclaim asked for, and the plan that answers them.

use std::collections::BTreeMap;

use mjolnir_units::{Instant, ZoneId};

use crate::space::Segment;

/// See the module.
#[derive(Default)]
pub(crate) struct Asked {
    /// Calls so far, and how many of the first ones have been answered.
    pub calls: u64,
    pub answered: u64,
    /// Callers that wait.
    pub callers: usize,
    /// The highest incarnation, and the log's sequence number, when the last call came.
    pub incarnation: u64,
    pub sequence: u64,
    /// The plan is for the first so many calls.
    pub planned: u64,
    /// For the first so many calls nothing is left to be moved: they are answered once the cycle has ended.
    pub over: u64,
    /// Segments that are still to be moved, with their incarnations.
    pub plan: BTreeMap<ZoneId, u64>,
    /// Cycles that the plan may still take.
    pub cycles_left: usize,
    /// The candidates are those of the plan.
    candidates: bool,
    /// When reclaim went to work again after its last rest.
    pub working_since: Option<Instant>,
    /// Clients' requests so far, when it was last asked whether there were more.
    pub requests_seen: u64,
    /// Segments given up, and blocks moved, for all calls together.
    pub segments: u64,
    pub moved_blocks: u64,
}

impl Asked {
    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Whether somebody waits for what was asked for.
    pub fn is_open(&self) -> bool {
        self.calls > self.answered
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

    /// The candidates were chosen, out of the plan or not.
    pub fn candidates_are_planned(&mut self, planned: bool) {
        self.candidates = planned;
    }

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

    /// Work that clients are to be left room beside begins.
    pub fn begin_work(&mut self) {
        self.working_since = None;
    }
}
