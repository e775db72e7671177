//! Why a segment could not be emptied, and when that is tried again.

use std::time::Duration;

use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Instant};

use crate::space::{Segment, Space};

/// Why a segment could not be emptied.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    /// Its live blocks at the time.
    pub live: u32,
    pub why: Error,
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
    pub at: Instant,
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
    pub(crate) fn after(before: Option<Retry>, now: Instant) -> Self {
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
    pub(crate) fn retry(&self) -> Option<Retry> {
        self.retry.filter(|_| self.stuck.as_ref().is_some_and(Stuck::passes))
    }
}

impl Space {
    /// What failure of the device keeps reclaim from winning a segment's worth, if any does.
    pub(crate) fn lost_to_outage(&self) -> Option<&Error> {
        self.stuck_by(Stuck::passes)
    }

    /// The same of damage.
    pub fn lost_to_damage(&self) -> Option<&Error> {
        self.stuck_by(|stuck| !stuck.passes())
    }

    fn stuck_by(&self, are: impl Fn(&Stuck) -> bool) -> Option<&Error> {
        let (mut stale, mut why) = (0, None);
        for (_, segment) in self.sealed_data() {
            if let Some(stuck) = segment.stuck().filter(|stuck| are(stuck)) {
                stale += u64::from(segment.payload.saturating_sub(stuck.live)) * BLOCK_SIZE;
                why = Some(&stuck.why);
            }
        }
        why.filter(|_| stale >= self.payload_bytes())
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
