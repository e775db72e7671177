//! What callers of [`collect`](Engine::collect) asked for, at rest or beside clients.
//!
//! A call wins what can be won when it comes, once. The first mark that begins after it makes the
//! *plan*: the segments that were sealed before the call and that pay, by that mark's counts. Only these
//! are moved for its sake, each at most once, whatever clients write meanwhile; so it ends. Callers that
//! come while a plan is carried out share the next one. When the last caller leaves, the plan is called off:
//! what is copied by then is repointed, and nothing else is begun.
//!
//! While clients are at work, reclaim rests for [`REST_FOR_WORK`] times as long as it has worked.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::Collected;
use mjolnir_units::{BLOCK_SIZE, Instant};

use crate::drive::{Engine, State};

/// While clients are at work, reclaim that was asked for rests this many times as long as it worked.
const REST_FOR_WORK: u32 = 3;

/// The longest rest at once.
const REST_MAX: Duration = Duration::from_secs(2);

/// A caller that waits. Dropped with its future, it takes back what it asked for.
struct Caller<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    /// The number of its call.
    number: u64,
    /// What had been won for all calls when it came.
    before: (u64, u64),
}

impl<D: Device, R: Runtime> Caller<D, R> {
    fn new(engine: &Engine<D, R>) -> Self {
        let mut state = engine.state();
        let (incarnation, sequence) = (state.space.incarnation, state.log.sequence);
        let requests = state.counters.client_requests();
        let asked = &mut state.reclaim.asked;
        let before = asked.won();
        Caller {
            engine: engine.clone(),
            number: asked.call(incarnation, sequence, requests),
            before,
        }
    }

    /// What was won since it came.
    fn won(&self) -> Collected {
        let (segments, moved_blocks) = self.engine.state().reclaim.asked.won();
        Collected {
            segments: segments - self.before.0,
            moved_bytes: (moved_blocks - self.before.1) * BLOCK_SIZE,
            ..Collected::default()
        }
    }
}

impl<D: Device, R: Runtime> Drop for Caller<D, R> {
    fn drop(&mut self) {
        let called_off = self.engine.state().reclaim.asked.leave();
        if called_off {
            self.engine.call_reclaim();
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until what can be won now is won. Dropped before, it calls that off.
    pub(in crate::reclaim) async fn ask_for_all(&self) -> Collected {
        let caller = Caller::new(self);
        self.state().retry_all();
        self.call_reclaim();
        self.wait_while(|state| {
            let waits = !state.reclaim.asked.is_answered(caller.number);
            state.failed.is_none() && !state.stopping && waits
        })
        .await;
        caller.won()
    }

    /// Leaves the device to clients for a while, where reclaim was asked for and they are at work: called
    /// between pieces of work.
    pub(in crate::reclaim) async fn leave_room_to_clients(&self) {
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
        self.state().reclaim.asked.end_rest(now);
    }
}

impl State {
    /// Whether clients have asked for anything since this was last asked, or wait.
    pub(in crate::reclaim) fn clients_came(&mut self) -> bool {
        let requests = self.counters.client_requests();
        self.reclaim.asked.saw_more(requests) || self.clients_waiting > 0
    }

    /// How long reclaim rests now, after what it did since its last rest.
    fn rest_due(&mut self, now: Instant) -> Duration {
        let since = self.reclaim.asked.begin_rest();
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
}
