//! Select: ask the victim policy, within the memory and space there is.

use mjolnir_device::{Device, Runtime};
use mjolnir_policy::victim::{SegmentView, VictimView};

use crate::engine::Engine;
use crate::format::segment::Footer;
use crate::space::{MAP_STREAM, SegmentState};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Chooses the next candidates. Returns how many, and whether there was none to choose.
    pub(super) fn select(&self) -> (usize, bool) {
        let mut guard = self.state();
        let state = &mut *guard;
        let capacity = state.space.zone_blocks;
        let forced = state.reclaim.forced > state.reclaim.forced_done;
        let due = forced || state.reclaim.urgent || state.reclaim.last_pacing.active;
        if !due || state.closing {
            return (0, false);
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
                if segment.stuck == Some(live) {
                    return None;
                }
                // When asked for, each segment there was then is moved at most once, even a wholly
                // live one (the paper's way of measuring). Else only what wins something.
                // A short one, such as every restart leaves, can be joined with others.
                let short = u64::from(segment.payload) < capacity / 2;
                let eligible =
                    (forced && segment.incarnation <= limit) || live < segment.payload || short;
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
        let mut threshold = state.reclaim.options.candidate_threshold;
        if threshold < 1.0 {
            let most = state.log.group_blocks_max();
            // A victim's blocks are divided over streams.
            let group = (most / u32::from(state.placement.reclaim_streams())).max(most.min(8));
            threshold = threshold.min(relocated_density(capacity, group));
        }
        let view = VictimView {
            segments: &segments,
            now_sequence: state.log.sequence,
            threshold,
            segments_max: state.reclaim.options.candidates_max,
            live_blocks_max: (room as u64 * capacity).max(capacity),
        };
        let chosen = state.reclaim.victim.choose(&view);
        state.reclaim.index.choose(chosen);
        (state.reclaim.index.len(), segments.is_empty())
    }
}

/// The share of a segment that relocated blocks fill at least, between headers and a footer. To
/// take fuller segments for candidates would be to move the same blocks round and round.
fn relocated_density(zone_blocks: u64, group_blocks_max: u32) -> f64 {
    // A group ends with each victim, so many are shorter than they may be.
    let group = u64::from(group_blocks_max).min((zone_blocks / 4).max(8)) as f64;
    let footer = Footer::blocks(zone_blocks, (zone_blocks as f64 / group) as usize + 1);
    let payload = (zone_blocks - 1 - footer) as f64 * group / (group + 1.0);
    payload / zone_blocks as f64
}
