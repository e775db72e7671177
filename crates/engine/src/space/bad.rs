//! Bad segments: the device failed to write to them.
//!
//! What lives in a bad segment is moved first of all. Once it is empty it is not free: it is tried
//! again, ever later, by writing all of it. If that works, the next checkpoint lists it as free. If
//! it goes on failing, it stays out of use until somebody asks to try it.

use std::time::Duration;

use mjolnir_units::{Instant, ZoneId};

use crate::space::{SegmentState, Space};

/// The times for which an empty bad segment rests before it is tried, after its first failure, its
/// second, and so on. After that it is out of use.
const RESTS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(100)];

/// Free segments that may be passed over, for failing, until a root with another order is durable.
/// Recovery must not stop its search for opened segments among them.
pub(crate) const PASSED_OVER_MAX: usize = 16;

/// A segment that the device failed to write to.
#[derive(Clone, Debug)]
pub(crate) struct Bad {
    /// How often it failed.
    pub failures: u8,
    /// What the device said last.
    pub why: String,
    /// When it is tried again; known once it is empty.
    due: Option<Instant>,
}

impl Space {
    /// The device failed to write to a segment.
    pub fn note_bad(&mut self, zone: ZoneId, why: &str) {
        let before = self.forgiven.remove(&zone).unwrap_or(0);
        let bad =
            self.bad.entry(zone).or_insert(Bad { failures: before, why: String::new(), due: None });
        bad.failures = bad.failures.saturating_add(1);
        bad.why = why.into();
        bad.due = None;
    }

    /// The segment that was to be reset could not be: it is passed over.
    pub fn pass_over(&mut self, zone: ZoneId, why: &str) {
        assert_eq!(self.resetting.take(), Some(zone), "a segment was reset unasked");
        self.get_mut(zone).state = SegmentState::Bad;
        self.passed_over += 1;
        self.note_bad(zone, why);
    }

    /// A segment was opened, and its header could not be written: recovery will not see that it was.
    pub fn note_unopened(&mut self) {
        self.passed_over += 1;
    }

    /// Whether no segment can be opened before a root lists others.
    pub fn needs_root(&self) -> bool {
        !self.may_pass_over() && self.ready.is_empty() && self.resetting.is_none()
    }

    /// Whether the next free segments may be tried, or a root must list others first.
    pub fn may_pass_over(&self) -> bool {
        self.passed_over < PASSED_OVER_MAX
    }

    /// A checkpoint knew of this bad segment. What it says of segments in use is set before.
    pub fn load_bad(&mut self, zone: ZoneId, failures: u8) {
        let why = "it failed before the store was opened".into();
        self.bad.insert(zone, Bad { failures, why, due: None });
        let segment = self.get_mut(zone);
        if segment.state == SegmentState::Free {
            segment.state = SegmentState::Bad;
        }
    }

    /// The bad segments, with how often they failed.
    pub fn bad(&self) -> impl Iterator<Item = (ZoneId, &Bad)> {
        self.bad.iter().map(|(zone, bad)| (*zone, bad))
    }

    pub fn is_bad(&self, zone: ZoneId) -> bool {
        self.bad.contains_key(&zone)
    }

    /// Bad segments that hold nothing.
    pub fn empty_bad(&self) -> impl Iterator<Item = ZoneId> {
        let is_empty = |zone: &ZoneId| self.get(*zone).state == SegmentState::Bad;
        self.bad.keys().copied().filter(is_empty)
    }

    /// Those of them that no read holds.
    pub fn triable(&self) -> impl Iterator<Item = ZoneId> {
        self.empty_bad().filter(|zone| self.get(*zone).pins == 0)
    }

    /// Whether a bad segment holds data that can be moved.
    pub fn has_bad_data(&self) -> bool {
        self.bad.keys().any(|zone| {
            let segment = self.get(*zone);
            segment.state == SegmentState::Sealed
                && segment.stream != super::MAP_STREAM
                && segment.stuck().is_none()
        })
    }

    /// The empty bad segment to be tried next, and when. None is if all have failed too often.
    pub fn next_trial(&mut self, now: Instant) -> Option<(ZoneId, Instant)> {
        let mut next: Option<(ZoneId, Instant)> = None;
        for zone in self.triable().collect::<Vec<_>>() {
            let bad = self.bad.get_mut(&zone).expect("it is one of them");
            let Some(rest) = RESTS.get(usize::from(bad.failures).saturating_sub(1)) else {
                continue;
            };
            let due = *bad.due.get_or_insert(now + *rest);
            if next.is_none_or(|(_, at)| due < at) {
                next = Some((zone, due));
            }
        }
        next
    }

    /// An empty bad segment was written and read in whole: the next checkpoint lists it as free.
    pub fn take_back(&mut self, zone: ZoneId) {
        if let Some(bad) = self.bad.remove(&zone) {
            self.forgiven.insert(zone, bad.failures);
            self.grown.push(zone);
        }
    }

    /// Takes the empty bad segment that failed least into use without a trial, where there is no
    /// other. Returns whether there was one.
    pub fn forgive_one(&mut self) -> bool {
        let least = self.empty_bad().min_by_key(|zone| self.bad[zone].failures);
        let Some(zone) = least else { return false };
        if let Some(bad) = self.bad.remove(&zone) {
            self.forgiven.insert(zone, bad.failures);
        }
        self.push_free(zone);
        true
    }

    /// A durable checkpoint lists the segment as bad: it holds nothing any more.
    pub fn push_bad(&mut self, zone: ZoneId) {
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Bad;
        segment.live = None;
    }
}
