//! Segments that could not be emptied, and when they are tried again.
//!
//! Where data or the map is damaged, a segment is tried again once something else is live in it. A device that
//! failed may be back any time, of which nobody tells: so what it failed for is tried again after a second, and
//! ever less often where that fails, too. Nobody is refused before that was done once (`room.rs`).

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Instant, ZoneId};

use crate::engine::{Engine, State};
use crate::space::Segment;

/// Why a segment could not be emptied.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    /// Its live blocks at the time.
    live: u32,
    why: Error,
}

impl Stuck {
    /// Whether the device failed, which may pass; else there is damage.
    fn passes(&self) -> bool {
        self.why.kind == ErrorKind::Io
    }
}

/// When something is tried again that the device failed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    at: Instant,
    /// How long that is after it failed, or somewhat less.
    wait: Duration,
}

impl Retry {
    const WAIT_MIN: Duration = Duration::from_secs(1);
    /// So much longer than it lasts an outage may be felt, and so often is copied in vain what lies before a place
    /// that cannot be read.
    const WAIT_MAX: Duration = Duration::from_secs(64);

    /// It failed, after it did so `before`. Who tries before its time, by order or since something else is live,
    /// does not put it off; where its time was long ago, that was another outage.
    fn after(before: Option<Retry>, now: Instant) -> Self {
        let wait = match before {
            Some(before) if now < before.at => return before,
            Some(before) if now < before.at + Self::WAIT_MAX => {
                (2 * before.wait).min(Self::WAIT_MAX)
            }
            _ => Self::WAIT_MIN,
        };
        // What failed at different times is tried together.
        let step = wait.as_nanos() as u64 / 2;
        let at = Instant((now + wait).0.next_multiple_of(step));
        Retry { at, wait }
    }
}

/// How long it is waited for that something is tried again, before anybody is refused.
const PATIENCE: Duration = Duration::from_secs(3);

impl Segment {
    /// Why it is not to be tried, if it is not.
    pub fn stuck(&self) -> Option<&Stuck> {
        self.stuck_with(self.live?)
    }

    /// The same if so many blocks are live in it.
    pub fn stuck_with(&self, live: u32) -> Option<&Stuck> {
        self.stuck.as_ref().filter(|stuck| stuck.live == live)
    }

    /// When it is tried again though the same is live in it.
    fn retry(&self) -> Option<Retry> {
        self.retry.filter(|_| self.stuck.as_ref().is_some_and(Stuck::passes))
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// A segment could not be emptied.
    pub(super) fn note_stuck(&self, zone: ZoneId, why: &Error) {
        let now = self.runtime().now();
        let mut state = self.state();
        let segment = state.space.get_mut(zone);
        segment.stuck = segment.live.map(|live| Stuck { live, why: why.clone() });
        if why.kind == ErrorKind::Io {
            let retry = *segment.retry.insert(Retry::after(segment.retry, now));
            drop(state);
            self.expect(retry);
        }
    }

    /// The map could not be marked.
    pub(super) fn note_mark_failed(&self, why: &Error) {
        if why.kind == ErrorKind::Io {
            let now = self.runtime().now();
            let retry = Retry::after(self.state().reclaim.mark_retry, now);
            self.state().reclaim.mark_retry = Some(retry);
            self.expect(retry);
        }
    }

    fn expect(&self, retry: Retry) {
        let next = self.state().reclaim.retry_at;
        if next.is_none_or(|next| retry.at < next) {
            self.state().reclaim.retry_at = Some(retry.at);
            self.notify();
        }
        if next.is_none() {
            self.spawn(self.clone().retry_task());
        }
    }

    /// Waits until something that the device failed for has been tried again since there had been `retries`, or it is
    /// `over` what that is waited for; for a while at most. Returns whether there is anything to wait for.
    pub(crate) async fn wait_for_retry(&self, retries: u64, over: impl Fn(&State) -> bool) -> bool {
        let is_known =
            |state: &State| state.reclaim.retry_at.is_none() && state.reclaim.retries == retries;
        if is_known(&self.state()) {
            return false;
        }
        let waits = self.wait_while(|state| {
            let ends = state.stopping || state.failed.is_some() || over(state);
            !ends && state.reclaim.retries == retries
        });
        select(pin!(waits), pin!(self.runtime().sleep(PATIENCE))).await;
        true
    }

    /// The task that has what the device failed for tried again, while there is any such thing.
    async fn retry_task(self) {
        loop {
            let Some(at) = self.state().reclaim.retry_at else { return };
            let changes = self.wait_while(|state| {
                !state.stopping && state.failed.is_none() && state.reclaim.retry_at == Some(at)
            });
            let wait = Duration::from_nanos(at.0.saturating_sub(self.runtime().now().0));
            let waits = self.runtime().sleep(wait);
            if let Either::Left(_) = select(pin!(changes), pin!(waits)).await {
                let mut state = self.state();
                if state.stopping || state.failed.is_some() {
                    state.reclaim.retry_at = None;
                }
                continue;
            }
            let now = self.runtime().now();
            self.state().retry_due(now);
            self.call_reclaim();
        }
    }
}

impl State {
    /// Has that tried again which it is time for.
    fn retry_due(&mut self, now: Instant) {
        let is_due = |retry: Retry| retry.at <= now;
        self.retry_where(is_due);
        if self.reclaim.mark_retry.is_some_and(is_due) {
            // It is not known any more.
            self.reclaim.failure.take_if(|error| error.kind == ErrorKind::Io);
        }
        let of_mark = self.reclaim.mark_retry.filter(|retry| !is_due(*retry));
        let retries = self.space.segments.iter().filter_map(Segment::retry).chain(of_mark);
        self.reclaim.retry_at = retries.map(|retry| retry.at).min();
        self.reclaim.retries += 1;
    }

    /// Has those segments tried again that the device failed for.
    pub(super) fn retry_all(&mut self) {
        self.retry_where(|_| true);
    }

    fn retry_where(&mut self, are_to: impl Fn(Retry) -> bool) {
        for segment in &mut self.space.segments {
            if segment.retry().is_some_and(&are_to) {
                segment.stuck = None;
                self.reclaim.fruitless_at = None; // There is something new to win.
            }
        }
        if self.lost_to_outage().is_none() {
            self.reclaim.failure.take_if(|error| error.kind == ErrorKind::Io);
        }
    }

    /// What failure of the device keeps reclaim from winning a segment's worth, if any does.
    pub(super) fn lost_to_outage(&self) -> Option<&Error> {
        self.stuck_by(Stuck::passes)
    }

    /// The same of damage.
    pub fn lost_to_damage(&self) -> Option<&Error> {
        self.stuck_by(|stuck| !stuck.passes())
    }

    fn stuck_by(&self, are: impl Fn(&Stuck) -> bool) -> Option<&Error> {
        let (mut stale, mut why) = (0, None);
        for (_, segment) in self.space.sealed_data() {
            if let Some(stuck) = segment.stuck().filter(|stuck| are(stuck)) {
                stale += u64::from(segment.payload.saturating_sub(stuck.live)) * BLOCK_SIZE;
                why = Some(&stuck.why);
            }
        }
        why.filter(|_| stale >= self.space.payload_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    #[test]
    fn what_goes_on_failing_is_tried_ever_less_often() {
        let (mut now, mut last) = (at(300), None);
        let mut waits = Vec::new();
        for _ in 0..10 {
            let retry = Retry::after(last, now);
            let waited = retry.at.0 - now.0;
            let wait = retry.wait.as_nanos() as u64;
            assert!(waited >= wait && waited < wait + wait / 2, "{waited} of {wait}");
            waits.push(retry.wait.as_secs());
            // Who tries before does not put it off.
            assert_eq!(Retry::after(Some(retry), Instant(retry.at.0 - 1)), retry);
            // Each time a little later than it could be.
            (now, last) = (retry.at + Duration::from_millis(30), Some(retry));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]);
    }

    #[test]
    fn what_failed_at_different_times_is_tried_together() {
        let retries = [100, 200, 480].map(|millis| Retry::after(None, at(millis)).at);
        assert_eq!(retries, [at(1500); 3]);
    }

    #[test]
    fn another_outage_begins_anew() {
        let last = Retry { at: at(640_000), wait: Retry::WAIT_MAX };
        assert_eq!(Retry::after(Some(last), at(703_000)).wait, Retry::WAIT_MAX);
        assert_eq!(Retry::after(Some(last), at(704_000)).wait, Retry::WAIT_MIN);
    }
}
