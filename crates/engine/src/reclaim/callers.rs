//! What callers of [`collect`](Engine::collect) asked for, at rest or beside clients.
//!
//! A call wins what can be won when it comes, once. The first mark that begins after it makes the
//! *plan*: the segments that were sealed before the call and that pay, by that mark's counts. Only these
//! are moved for its sake, each at most once, whatever clients write meanwhile; so it ends. Callers that
//! come while a plan is carried out share the next one. When the last caller leaves, the plan is called off:
//! what is copied by then is repointed, and nothing else is begun.
//!
//! While clients are at work, reclaim rests for [`REST_FOR_WORK`] times as long as it has worked.

use mjolnir_store::report::Collected;
use std::collections::BTreeMap;
use std::mem::replace;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{Device, Runtime};
use mjolnir_units::{BLOCK_SIZE, Instant, ZoneId};

use crate::drive::{Engine, State};

use crate::space::{Segment, SegmentState};

/// Reclaim that was asked for leaves clients so many times the time that it takes itself.
const REST_FOR_WORK: u32 = 3;

/// The longest rest at once.
const REST_MAX: Duration = Duration::from_secs(2);

/// Cycles that a plan may take beyond those that its segments fill twice over: where clients lack space
/// others come first, and no plan is to wait for ever.
const CYCLES_SPARE: usize = 4;

/// A caller that waits. Dropped with its future, it takes back what it asked for.
struct Caller<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    number: u64,
    before: (u64, u64),
}

impl<D: Device, R: Runtime> Caller<D, R> {
    fn new(engine: &Engine<D, R>) -> Self {
        let mut state = engine.state();
        let (incarnation, sequence) = (state.space.incarnation, state.log.sequence);
        let requests = state.counters.client_requests();
        let asked = &mut state.reclaim.asked;
        asked.requests_seen = requests;
        asked.calls += 1;
        asked.callers += 1;
        (asked.incarnation, asked.sequence) = (incarnation, sequence);
        let before = (asked.segments, asked.moved_blocks);
        Caller { engine: engine.clone(), number: asked.calls, before }
    }

    /// What was won since it came.
    fn won(&self) -> Collected {
        let state = self.engine.state();
        let asked = &state.reclaim.asked;
        Collected {
            segments: asked.segments - self.before.0,
            moved_bytes: (asked.moved_blocks - self.before.1) * BLOCK_SIZE,
            ..Collected::default()
        }
    }
}

impl<D: Device, R: Runtime> Drop for Caller<D, R> {
    fn drop(&mut self) {
        let called_off = {
            let mut state = self.engine.state();
            let asked = &mut state.reclaim.asked;
            asked.callers -= 1;
            let called_off = asked.callers == 0 && asked.is_open();
            if called_off {
                asked.answer_all();
            }
            called_off
        };
        if called_off {
            self.engine.call_reclaim();
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until what can be won now is won. Dropped before, it calls that off.
    pub(crate) async fn ask_for_all(&self) -> Collected {
        let caller = Caller::new(self);
        self.state().retry_all();
        self.call_reclaim();
        self.wait_while(|state| {
            let waits = state.reclaim.asked.answered < caller.number;
            state.failed.is_none() && !state.stopping && waits
        })
        .await;
        caller.won()
    }

    /// Leaves the device to clients for a while, where reclaim was asked for and they are at work: called
    /// between pieces of work.
    pub(crate) async fn leave_room_to_clients(&self) {
        if !self.state().reclaim.is_forced() {
            return;
        }
        let now = self.runtime().now();
        let rest = self.state().rest_due(now);
        if !rest.is_zero() {
            let hurry = self.wait_while(|state| state.may_rest());
            select(pin!(hurry), pin!(self.runtime().sleep(rest))).await;
        }
        let now = self.runtime().now();
        self.state().reclaim.asked.working_since = Some(now);
    }
}

impl State {
    /// Whether clients have asked for anything since this was last asked, or wait.
    pub(crate) fn clients_came(&mut self) -> bool {
        let requests = self.counters.client_requests();
        let before = replace(&mut self.reclaim.asked.requests_seen, requests);
        requests != before || self.clients_waiting > 0
    }

    /// How long reclaim rests now, after what it did since its last rest.
    fn rest_due(&mut self, now: Instant) -> Duration {
        let since = self.reclaim.asked.working_since.take();
        let came = self.clients_came();
        match since {
            Some(since) if came && self.may_rest() => {
                (now.since(since) * REST_FOR_WORK).min(REST_MAX)
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether reclaim that was asked for may rest: not while clients wait for what it wins.
    fn may_rest(&mut self) -> bool {
        let reclaim = &self.reclaim;
        let owes = reclaim.last_pacing.active && reclaim.gate.reclaim_may_move() > 0;
        let hurried = reclaim.urgent || reclaim.last_pacing.panic || owes;
        self.reclaim.is_forced()
            && !hurried
            && !self.closing
            && !self.stopping
            && self.failed.is_none()
    }

    /// Whether even what is wholly live is moved where reclaim is asked for: the paper's way of measuring.
    pub(crate) fn moves_everything(&self) -> bool {
        self.reclaim.options.candidate_threshold >= 1.0
    }

    /// Whether a segment is to be moved for callers.
    pub(crate) fn is_planned(&self, zone: ZoneId, segment: &Segment) -> bool {
        self.reclaim.asked.plan.get(&zone) == Some(&segment.incarnation)
    }

    /// Makes a plan of these segments, for the first `calls` calls.
    pub(crate) fn plan(&mut self, zones: impl IntoIterator<Item = ZoneId>, calls: u64) {
        let plan: BTreeMap<ZoneId, u64> =
            zones.into_iter().map(|zone| (zone, self.space.get(zone).incarnation)).collect();
        let cycles = plan.len().div_ceil(self.reclaim.options.candidates_max.max(1));
        let asked = &mut self.reclaim.asked;
        asked.cycles_left = 2 * cycles + CYCLES_SPARE;
        (asked.plan, asked.planned) = (plan, calls);
    }

    /// Whether a plan is due for calls that came before a mark, the first `calls` of all.
    pub(crate) fn is_plan_due(&self, calls: u64) -> bool {
        let asked = &self.reclaim.asked;
        self.reclaim.is_forced() && asked.plan.is_empty() && calls > asked.planned
    }

    /// Whether a segment was there, and sealed, when the last call came.
    pub(crate) fn was_there(&self, segment: &Segment) -> bool {
        let asked = &self.reclaim.asked;
        let sealed = self.moves_everything() || segment.sealed <= asked.sequence;
        segment.incarnation <= asked.incarnation && sealed
    }

    /// A cycle has ended: what it did of the plan is done.
    pub(crate) fn follow_plan(&mut self) {
        let State { reclaim, space, .. } = self;
        let asked = &mut reclaim.asked;
        asked.plan.retain(|zone, incarnation| {
            let segment = space.get(*zone);
            segment.state == SegmentState::Sealed && segment.incarnation == *incarnation
        });
        asked.cycles_left = asked.cycles_left.saturating_sub(1);
        if asked.cycles_left == 0 {
            asked.plan.clear();
        }
        if asked.plan.is_empty() {
            asked.over = asked.planned;
        }
    }

    /// Nothing of the plan can be moved any more.
    pub(crate) fn end_plan(&mut self) {
        let asked = &mut self.reclaim.asked;
        asked.plan.clear();
        asked.over = asked.planned;
    }
}
