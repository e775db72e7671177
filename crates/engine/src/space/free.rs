//! Free segments: the order in which they are opened, reset and given back to the host.

use mjolnir_units::ZoneId;

use crate::space::{Segment, SegmentState, Space};

/// Segments kept reset, so that opening one does not wait for the device.
const READY_WANTED: usize = 4;

/// Free segments that are kept as they are, besides the ready ones: they are opened next.
const KEPT_FREE: usize = 4;

/// Roots that must be durable before any segment is given back: both copies are of this opening then, and
/// neither leads to what recovery found.
const ROOTS_BEFORE_RELEASE: u64 = 2;

/// How far down the order a segment may be taken before those ahead of it.
pub(crate) const ORDER_SLACK: usize = 8;

impl Space {
    /// Adds a segment that a durable checkpoint lists as free, at the end of the order. What is
    /// known of it stays until it is reset: reads that pin it still need that.
    pub fn push_free(&mut self, zone: ZoneId) {
        let freed = self.roots.max(ROOTS_BEFORE_RELEASE - 1);
        let segment = self.get_mut(zone);
        segment.state = SegmentState::Free;
        segment.live = None;
        (segment.freed, segment.released) = (freed, false);
        self.free.push_back(zone);
    }

    /// Lists these segments, and no others, as free, all of which may be taken.
    pub fn begin_rescue(&mut self, zones: &[ZoneId]) {
        self.rescuing = true;
        zones.iter().for_each(|zone| self.push_free(*zone));
    }

    /// Whether few segments are ready and more could be.
    pub fn next_reset_wanted(&self) -> bool {
        self.ready.len() < READY_WANTED && !self.free.is_empty()
    }

    /// The next segment to be reset, if few are ready. `busy` zones have I/O under way.
    pub fn next_to_reset(&mut self, busy: impl Fn(ZoneId) -> bool) -> Option<ZoneId> {
        if !self.next_reset_wanted() {
            return None;
        }
        // In order but for the rare one that a read still uses: recovery tolerates short gaps.
        let idle = |zone: &ZoneId| {
            self.get(*zone).pins == 0 && !busy(*zone) && !self.releasing.contains(zone)
        };
        let at = self.free.iter().take(ORDER_SLACK).position(idle)?;
        let zone = self.free.remove(at)?;
        *self.get_mut(zone) = Segment::free();
        assert!(self.resetting.replace(zone).is_none(), "two segments are reset at once");
        Some(zone)
    }

    /// Free segments that are not kept, and were not given back.
    fn to_release(&self) -> impl Iterator<Item = ZoneId> {
        self.free.iter().copied().skip(KEPT_FREE).filter(|zone| !self.get(*zone).released)
    }

    /// Whether there are any.
    pub fn has_unreleased(&self) -> bool {
        self.to_release().next().is_some()
    }

    /// How many there are.
    pub fn unreleased(&self) -> usize {
        self.to_release().count()
    }

    /// Whether some of them are not free yet by both copies of the root.
    pub fn awaits_root(&self) -> bool {
        self.to_release().any(|zone| self.get(zone).freed >= self.roots)
    }

    /// The next segment to be given back, which is under way from now on. `busy` zones have I/O under way.
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
