//! Gives up what is empty: victims retire, and are free once a later checkpoint is durable.

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::reclaim::mark::Walked;
use crate::space::SegmentState;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Gives up segments in which the mark found nothing live.
    pub(crate) fn retire_empty(&self, walked: &Walked) -> Vec<ZoneId> {
        let mut state = self.state();
        let mut retired = Vec::new();
        let written = state.counters.client_write_blocks;
        state.reclaim.released.end_mark(walked.blocks, written);
        for (zone, count) in walked.live.counts() {
            let segment = state.space.get_mut(zone);
            if segment.state != SegmentState::Sealed {
                continue;
            }
            segment.live = Some(count);
            if count == 0 {
                let State { placement, space, log, .. } = &mut *state;
                placement.reclaimed(space.get(zone), 0, None, log.sequence);
                state.retire(zone);
                retired.push(zone);
            }
        }
        retired
    }
}

impl State {
    /// Gives a segment up: nothing refers to it any more.
    pub(crate) fn retire(&mut self, zone: ZoneId) {
        let segment = self.space.get_mut(zone);
        (segment.state, segment.stuck) = (SegmentState::Retiring, None);
        let payload = segment.payload;
        let won = payload.saturating_sub(segment.live.unwrap_or(payload));
        self.reclaim.released.won(won.into());
        self.reclaim.counters.blocks_won += u64::from(won);
        self.reclaim.index.remove(zone);
        self.reclaim.asked.retired(self.space.get(zone));
        self.reclaim.counters.segments_retired += 1;
        self.reclaim.failure = None;
    }
}
