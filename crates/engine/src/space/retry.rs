//! Segments that reclaim could not empty: the reason, and the time of the next attempt.

use std::time::Duration;

use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, Instant};

use crate::space::{Segment, Space};

/// The reason why reclaim could not empty a segment.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    /// Its live blocks at the time.
    pub live: u32,
    pub why: Error,
}

impl Stuck {
    /// Whether the device failed, which may be temporary. Otherwise data is damaged.
    fn passes(&self) -> bool {
        self.why.kind == ErrorKind::Io
    }
}

/// When an operation is retried after the device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub at: Instant,
    /// The least interval between the failure and the retry; `at` is rounded up.
    wait: Duration,
}

impl Retry {
    const WAIT_MIN: Duration = Duration::from_secs(1);

    /// Longest retry interval: reclaim may stay blocked this long after the device recovers. Each
    /// retry recopies what precedes the unreadable block.
    const WAIT_MAX: Duration = Duration::from_secs(64);

    /// The retry after a failure at `now`, given the retry set by the failure `before`. An attempt
    /// before its time, made by order or since the live blocks changed, does not postpone the
    /// retry. If the time is long past, this is another outage.
    pub(crate) fn after(before: Option<Retry>, now: Instant) -> Self {
        let wait = match before {
            Some(before) if now < before.at => return before,
            Some(before) if now < before.at + Self::WAIT_MAX => {
                (2 * before.wait).min(Self::WAIT_MAX)
            }
            _ => Self::WAIT_MIN,
        };
        // Rounded, so that operations which failed at different times are retried together.
        let step = wait.as_nanos() as u64 / 2;
        let at = Instant((now + wait).0.next_multiple_of(step));
        Retry { at, wait }
    }
}

impl Segment {
    /// Why the segment must not be tried now, if so.
    pub fn stuck(&self) -> Option<&Stuck> {
        self.stuck_with(self.live?)
    }

    /// The same, if `live` blocks are live in it.
    pub fn stuck_with(&self, live: u32) -> Option<&Stuck> {
        self.stuck.as_ref().filter(|stuck| stuck.live == live)
    }

    /// When the segment is retried although its live blocks did not change.
    pub(crate) fn retry(&self) -> Option<Retry> {
        self.retry.filter(|_| self.stuck.as_ref().is_some_and(Stuck::passes))
    }
}

impl Space {
    /// A device failure that keeps reclaim from freeing a segment's worth, if any.
    pub(crate) fn lost_to_outage(&self) -> Option<&Error> {
        self.stuck_by(Stuck::passes)
    }

    /// Damage that keeps reclaim from freeing a segment's worth, if any.
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
            // An early attempt does not postpone it.
            assert_eq!(Retry::after(Some(retry), Instant(retry.at.0 - 1)), retry);
            // Each retry comes slightly later than it could.
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
