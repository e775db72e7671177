//! Free segments: the order in which they are opened, reset and returned to the host.

use mjolnir_units::ZoneId;

use crate::space::bad::PASSED_OVER_MAX;
use crate::space::{Segment, SegmentState, Space};

/// Segments kept reset, so that opening one does not wait for the device.
const READY_WANTED: usize = 4;

/// Free segments not returned to the host, besides the ready ones: they are opened next.
const KEPT_FREE: usize = 4;

/// Roots that must become durable before any segment is returned to the host: then this opening
/// wrote both copies, and neither refers to what recovery found.
const ROOTS_BEFORE_RELEASE: u64 = 2;

/// Segments that may be skipped in the free order: a segment is taken at most this far ahead of an
/// earlier one.
pub(crate) const ORDER_SLACK: usize = 8;

impl Space {
    /// Appends a segment that a durable checkpoint lists as free to the order. Its checksums and
    /// state stay until it is reset: reads that pin it still need them.
    pub fn push_free(&mut self, zone: ZoneId) {
        let freed = self.roots.max(ROOTS_BEFORE_RELEASE - 1);
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Free;
        segment.live = None;
        (segment.freed, segment.released) = (freed, false);
        self.free.push_back(zone);
    }

    /// Makes these segments, and no others, the free list. All of them may be taken.
    pub fn begin_rescue(&mut self, zones: &[ZoneId]) {
        self.rescuing = true;
        zones.iter().for_each(|zone| self.push_free(*zone));
    }

    /// A root is durable, and so is its order of free segments.
    pub fn note_root(&mut self) {
        self.roots += 1;
        self.passed_over = 0;
    }

    /// Whether few segments are ready and more could be.
    pub fn next_reset_wanted(&self) -> bool {
        self.ready.len() < READY_WANTED && !self.free.is_empty() && self.may_pass_over()
    }

    /// The next segment to be reset, if few are ready. `busy` zones have I/O under way. Those that
    /// are `refused` hold up no other: groups that wait for a segment may lie there.
    pub fn next_to_reset(
        &mut self,
        busy: impl Fn(ZoneId) -> bool,
        refused: impl Fn(ZoneId) -> bool,
    ) -> Option<ZoneId> {
        if !self.next_reset_wanted() {
            return None;
        }
        // In order, except for the rare segment that a read still pins: recovery tolerates short
        // gaps.
        let idle = |zone: &ZoneId| {
            self.get(*zone).pins == 0 && !busy(*zone) && !self.releasing.contains(zone)
        };
        let waits = self.free.iter().take(PASSED_OVER_MAX).filter(|zone| refused(**zone)).count();
        let at = self.free.iter().take(ORDER_SLACK + waits).position(idle)?;
        let zone = self.free.remove(at)?;
        *self.get_mut(zone) = Segment::free();
        assert!(self.resetting.replace(zone).is_none(), "two segments are reset at once");
        Some(zone)
    }

    /// Free segments that may be returned to the host and have not been.
    fn to_release(&self) -> impl Iterator<Item = ZoneId> {
        self.free.iter().copied().skip(KEPT_FREE).filter(|zone| !self.get(*zone).released)
    }

    /// Whether any free segment has still to be returned.
    pub fn has_unreleased(&self) -> bool {
        self.to_release().next().is_some()
    }

    /// Number of free segments still to be returned.
    pub fn unreleased(&self) -> usize {
        self.to_release().count()
    }

    /// Whether some of them are not free in both copies of the root yet.
    pub fn awaits_root(&self) -> bool {
        self.to_release().any(|zone| self.get(zone).freed >= self.roots)
    }

    /// The next segment to return to the host; marks it as under way. `busy` zones have I/O under
    /// way.
    pub fn next_to_release(&mut self, busy: impl Fn(ZoneId) -> bool) -> Option<ZoneId> {
        let may_go = |zone: &ZoneId| {
            let segment = self.get(*zone);
            let idle = segment.pins == 0 && !busy(*zone) && !self.releasing.contains(zone);
            segment.freed < self.roots && idle
        };
        let zone = self.to_release().find(may_go)?;
        self.releasing.insert(zone);
        Some(zone)
    }

    /// The zone could not be reset: it is the next to be reset.
    pub fn put_back_unreset(&mut self, zone: ZoneId) {
        assert_eq!(self.resetting.take(), Some(zone), "a segment was reset unasked");
        self.free.push_front(zone);
    }

    /// The zone being reset is empty now.
    pub fn push_ready(&mut self, zone: ZoneId) {
        assert_eq!(self.resetting.take(), Some(zone), "a segment was reset unasked");
        self.ready.push_back(zone);
    }

    /// Free segments in the order in which they will be opened.
    pub fn free_order(&self) -> Vec<ZoneId> {
        self.ready.iter().chain(&self.resetting).chain(&self.free).copied().collect()
    }
}
