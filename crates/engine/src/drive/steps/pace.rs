//! Whether reclaim has work, and the pace of clients beside it.

use mjolnir_policy::pacing::PacingView;

use crate::drive::state::State;
use crate::pacing::ReclaimState;
use crate::space::SegmentState;

impl State {
    /// Whether no client waits and no client data is unwritten.
    pub fn is_quiet(&self) -> bool {
        self.clients_waiting == 0 && self.log.dirty_bytes == 0
    }

    /// Whether clients wait, or written data is on its way to the device. A group that only waits
    /// for more records does not count: nobody needs the device for it yet.
    pub fn is_under_way(&self) -> bool {
        self.clients_waiting > 0 || self.log.sent_bytes() > 0
    }

    /// Whether so many blocks were deleted that other segments may be emptier than the candidates.
    pub(crate) fn should_choose_anew(&self) -> bool {
        let ReclaimState { urgent, last_pacing, .. } = &self.reclaim;
        let hurried = *urgent || self.reclaim.is_forced() || last_pacing.panic;
        !hurried && self.is_much_deleted()
    }

    /// Whether enough blocks were deleted since the last mark began to justify another mark.
    fn is_much_deleted(&self) -> bool {
        self.reclaim.released.reckoned() >= self.much_blocks()
    }

    /// The number of deleted blocks that counts as many.
    pub(crate) fn much_blocks(&self) -> u64 {
        let store_blocks = self.space.segments.len() as u64 * self.space.zone_blocks;
        (store_blocks / 64).max(self.space.zone_blocks)
    }

    /// Blocks that reclaim could free, as far as is known.
    pub fn reclaimable_blocks(&self) -> u64 {
        let zone_blocks = self.space.zone_blocks;
        let sealed = self.space.sealed_data().filter(|(_, segment)| segment.stuck().is_none());
        // Unmarked segments count as half stale until a mark has counted them.
        let live = sealed.map(|(_, segment)| segment.live.map_or(zone_blocks / 2, u64::from));
        live.map(|live| zone_blocks.saturating_sub(live)).sum()
    }

    /// Asks the pacing policy again.
    pub fn update_pacing(&mut self) {
        let zone_blocks = self.space.zone_blocks;
        let reclaimable = self.reclaimable_blocks();
        let view = PacingView {
            free_segments: self.space.free_count() as u32,
            retiring_segments: self.space.count(SegmentState::Retiring) as u32,
            open_room_blocks: self.placement.client_room_blocks(&self.log).min(zone_blocks),
            reserve_segments: self.space.reserve() as u32,
            total_segments: self.space.segments.len() as u32,
            segment_blocks: zone_blocks,
            reclaimable_blocks: reclaimable,
            released_blocks: self.reclaim.released.blocks().min(reclaimable),
            much_deleted: self.is_much_deleted(),
            client_work_waiting: !self.is_quiet(),
            client_work_under_way: self.is_under_way(),
            reclaim_work_waiting: !self.reclaim.index.is_empty(),
            start_utilization: self.reclaim.options.start_utilization,
        };
        let was = self.reclaim.last_pacing;
        let mut pacing = self.reclaim.pacing.decide(&view);
        // Panic mode is useful only if relocation can free space; otherwise clients would wait for
        // nothing.
        pacing.panic &= !self.reclaim.index.is_empty();
        if pacing.panic && !was.panic {
            self.reclaim.counters.panics += 1;
        }
        self.reclaim.gate.update(pacing);
        self.reclaim.last_pacing = pacing;
    }
}
