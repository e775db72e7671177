//! Segments that could not be emptied, and when they are tried again.
//!
//! Where data or the map is damaged, a segment is tried again once something else is live in it. A device that
//! failed may be back any time, of which nobody tells: so what it failed for is tried again after a second, and
//! ever less often where that fails, too. By its first failure nothing is proven: nobody is refused for it.

use std::time::Duration;

use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Instant};

use crate::engine::State;
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
    /// So much longer than it lasted an outage may be felt, and so often is copied in vain what lies before a place
    /// that cannot be read.
    const WAIT_MAX: Duration = Duration::from_secs(1024);

    /// It failed, after it did so `before`. Who tries before its time, by order or since something else is live,
    /// does not put it off; where its time was long ago, that was another outage.
    fn after(before: Option<Retry>, now: Instant) -> Self {
        let wait = match before {
            Some(before) if now < before.at => return before,
            Some(before) if now < before.at + 2 * Self::WAIT_MAX => {
                (2 * before.wait).min(Self::WAIT_MAX)
            }
            _ => Self::WAIT_MIN,
        };
        // What failed at different times is tried together.
        let step = wait.as_nanos() as u64 / 2;
        let at = Instant((now + wait).0.next_multiple_of(step));
        Retry { at, wait }
    }

    fn is_first(&self) -> bool {
        self.wait == Self::WAIT_MIN
    }
}

/// How long the device may fail before anybody is refused for it.
pub(super) const PROVEN_AFTER: Duration = Retry::WAIT_MIN;

impl Segment {
    /// Why it is not to be tried, if it is not.
    pub fn stuck(&self) -> Option<&Stuck> {
        self.stuck_with(self.live?)
    }

    /// The same if so many blocks are live in it.
    pub fn stuck_with(&self, live: u32) -> Option<&Stuck> {
        self.stuck.as_ref().filter(|stuck| stuck.live == live)
    }

    /// It could not be emptied.
    pub fn note_stuck(&mut self, why: &Error, now: Instant) {
        self.stuck = self.live.map(|live| Stuck { live, why: why.clone() });
        if why.kind == ErrorKind::Io {
            self.retry = Some(Retry::after(self.retry, now));
        }
    }

    /// When it is tried again though the same is live in it.
    fn retry(&self) -> Option<Retry> {
        self.retry.filter(|_| self.stuck.as_ref().is_some_and(Stuck::passes))
    }
}

impl State {
    /// Marks fail, because the device does or for damage.
    pub(super) fn note_mark_failed(&mut self, why: &Error, now: Instant) {
        let retry = Retry::after(self.reclaim.mark_retry, now);
        self.reclaim.mark_retry = (why.kind == ErrorKind::Io).then_some(retry);
    }

    /// What kept others from it is over.
    pub(super) fn note_marked(&mut self) {
        let reclaim = &mut self.reclaim;
        (reclaim.failing_since, reclaim.failure, reclaim.mark_retry) = (None, None, None);
    }

    /// Has all that the device failed for tried again.
    pub(super) fn retry_all(&mut self) {
        self.retry_where(|_| true);
    }

    /// The same with what it is time for. Whether there was any.
    pub(super) fn retry_due(&mut self, now: Instant) -> bool {
        let is_due = |retry: Retry| retry.at <= now;
        if self.next_retry().is_none_or(|at| at > now) {
            return false;
        }
        self.retry_where(is_due);
        if self.reclaim.mark_retry.is_some_and(is_due) && self.reclaim.failure.is_some() {
            // It is not known any more.
            (self.reclaim.failure, self.reclaim.failing_since) = (None, None);
        }
        true
    }

    fn retry_where(&mut self, are_to: impl Fn(Retry) -> bool) {
        for segment in &mut self.space.segments {
            if segment.retry().is_some_and(&are_to) {
                segment.stuck = None;
                self.reclaim.fruitless_at = None; // There is something new to win.
            }
        }
        self.reclaim.retries += 1;
    }

    /// When something is to be tried again next.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let of_mark = self.reclaim.mark_retry.filter(|_| self.reclaim.failure.is_some());
        let retries = self.space.segments.iter().filter_map(Segment::retry).chain(of_mark);
        retries.map(|retry| retry.at).min()
    }

    /// Something was read that could not be before.
    pub(super) fn device_is_back(&mut self) {
        self.retry_all();
        self.space.segments.iter_mut().for_each(|segment| segment.retry = None);
    }

    /// Why reclaim wins nothing, where that is for a failure: the map cannot be marked, or the device fails for
    /// what there is to win.
    pub fn reclaim_failure(&self) -> Option<&Error> {
        let beside = || self.stuck_by(Stuck::passes).filter(|_| self.reclaim.in_vain);
        self.reclaim.failure.as_ref().or_else(beside)
    }

    /// What damage keeps reclaim from winning a segment's worth, if any does.
    pub fn reclaim_damage(&self) -> Option<&Error> {
        self.stuck_by(|stuck| !stuck.passes())
    }

    /// Whether it is not known yet if the device fails for good for what there is to win.
    pub fn is_outage_new(&self) -> bool {
        let mut retries = self.space.segments.iter().filter_map(Segment::retry);
        retries.any(|retry| retry.is_first()) && self.stuck_by(Stuck::passes).is_some()
    }

    /// Why segments are stuck which `are` so, if there is a segment's worth to be won of them.
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
        for _ in 0..14 {
            let retry = Retry::after(last, now);
            let waited = retry.at.0 - now.0;
            let wait = retry.wait.as_nanos() as u64;
            assert!(waited >= wait && waited < wait + wait / 2, "{waited} of {wait}");
            assert_eq!(retry.is_first(), last.is_none());
            waits.push(retry.wait.as_secs());
            // Who tries before does not put it off.
            assert_eq!(Retry::after(Some(retry), Instant(retry.at.0 - 1)), retry);
            // Each time a little later than it could be.
            (now, last) = (retry.at + Duration::from_millis(30), Some(retry));
        }
        let expected: Vec<u64> = (0..14).map(|nth| 1 << nth.min(10)).collect();
        assert_eq!(waits, expected);
    }

    #[test]
    fn what_failed_at_different_times_is_tried_together() {
        let retries = [100, 200, 480].map(|millis| Retry::after(None, at(millis)).at);
        assert_eq!(retries, [at(1500); 3]);
    }

    #[test]
    fn another_outage_begins_anew() {
        let mut last = Retry::after(None, at(0));
        while last.wait < Retry::WAIT_MAX {
            last = Retry::after(Some(last), last.at);
        }
        let soon = last.at + Duration::from_secs(2000);
        assert_eq!(Retry::after(Some(last), soon).wait, Retry::WAIT_MAX);
        let later = last.at + Duration::from_secs(3000);
        assert!(Retry::after(Some(last), later).is_first());
    }
}
