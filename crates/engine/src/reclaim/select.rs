//! Select: ask the victim policy, within the memory and space there is.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_policy::victim::{self, SegmentView, VictimView};

use crate::engine::Engine;
use crate::space::{MAP_STREAM, SegmentState};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Chooses the next candidates. Returns how many.
    pub(super) fn select(&self) -> usize {
        let mut guard = self.state();
        let state = &mut *guard;
        let capacity = state.space.zone_blocks;
        let forced = state.reclaim.forced > state.reclaim.forced_done;
        let due = forced || state.reclaim.urgent || state.reclaim.last_pacing.active;
        if !due || state.closing {
            return 0;
        }
        let limit = state.reclaim.forced_incarnation;
        let segments: Vec<SegmentView> = state
            .space
            .zones()
            .filter(|(_, segment)| {
                segment.state == SegmentState::Sealed && segment.stream != MAP_STREAM
            })
            .filter_map(|(zone, segment)| {
                let live = segment.live?;
                // When asked for, each segment there was then is moved at most once, even a wholly
                // live one (the paper's way of measuring). Else only what wins something.
                let eligible = (forced && segment.incarnation <= limit) || live < segment.payload;
                eligible.then(|| SegmentView {
                    zone,
                    live_blocks: u64::from(live),
                    used_blocks: u64::from(segment.payload),
                    capacity_blocks: capacity,
                    sealed_sequence: segment.sealed,
                    youngest_sequence: segment.sealed,
                })
            })
            .collect();
        // What may be moved: into the segments that reclaim may take, less one that fills partly.
        let room = state.space.free_count().saturating_sub(state.space.checkpoint_reserve() + 1);
        let view = VictimView {
            segments: &segments,
            now_sequence: state.log.sequence,
            threshold: state.reclaim.options.candidate_threshold,
            segments_max: state.reclaim.options.candidates_max,
            live_blocks_max: (room as u64 * capacity).max(capacity),
        };
        let mut policy = victim::by_name(&state.reclaim.options.policy)
            .expect("the policy's name was checked when the store was opened");
        let chosen = policy.choose(&view);
        state.reclaim.candidates = chosen.into_iter().map(|zone| (zone, BTreeSet::new())).collect();
        state.reclaim.candidates.len()
    }
}
