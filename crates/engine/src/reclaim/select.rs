//! Select: ask the victim policy, within the memory and space there is.

use mjolnir_device::{Device, Runtime};
use mjolnir_policy::victim::{SegmentView, VictimView};

use mjolnir_units::ZoneId;

use crate::engine::{Engine, State};
use crate::format::segment::Footer;
use crate::space::Segment;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Chooses the next candidates. Returns how many, and whether there was none to choose.
    pub(super) fn select(&self) -> (usize, bool) {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.is_selection_due() {
            // The mark may have told of more to win.
            state.update_pacing();
        }
        if !state.is_selection_due() || state.closing {
            return (0, false);
        }
        let segments = state.eligible(|segment| segment.live);
        let mut chosen = state.choose(&segments);
        state.add_least_worn(&mut chosen, |zone| self.device().erases(zone));
        state.reclaim.index.choose(chosen);
        (state.reclaim.index.len(), segments.is_empty())
    }

    /// Where reclaim was asked for of so few segments that all of them can be candidates, there is
    /// nothing to choose: they are before a mark has counted what is live, which so need not be
    /// followed by another.
    pub(super) fn select_all(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.is_forced() || state.closing || !state.reclaim.index.is_empty() {
            return;
        }
        // Of what was live once some may not be any more, but no more is.
        let segments = state.eligible(|segment| segment.live.or(Some(segment.payload)));
        let chosen = state.choose(&segments);
        if chosen.len() == segments.len() {
            state.reclaim.index.choose(chosen);
        }
    }
}

impl State {
    /// Whether reclaim was asked for, whatever the utilization.
    pub(super) fn is_forced(&self) -> bool {
        self.reclaim.forced > self.reclaim.forced_done
    }

    /// Whether there is reason to reclaim something.
    fn is_selection_due(&self) -> bool {
        self.is_forced() || self.reclaim.urgent || self.reclaim.last_pacing.active
    }

    /// The segments that may be candidates; `live` tells how many blocks of one are live, if it is
    /// known.
    fn eligible(&self, live: impl Fn(&Segment) -> Option<u32>) -> Vec<SegmentView> {
        let (forced, limit) = (self.is_forced(), self.reclaim.forced_incarnation);
        let capacity = self.space.zone_blocks;
        let data = self.space.sealed_data();
        data.filter_map(|(zone, segment)| {
            let live = live(segment)?;
            if segment.stuck_with(live).is_some() {
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
        .collect()
    }

    /// Those of the segments that the victim policy wants.
    fn choose(&mut self, segments: &[SegmentView]) -> Vec<ZoneId> {
        let capacity = self.space.zone_blocks;
        // What may be moved: into the segments that reclaim may take, less one that fills partly.
        let room = self.space.free_count().saturating_sub(self.space.checkpoint_reserve() + 1);
        let mut threshold = self.reclaim.options.candidate_threshold;
        if threshold < 1.0 {
            let most = self.log.group_blocks_max();
            // A victim's blocks are divided over streams.
            let group = (most / u32::from(self.placement.reclaim_streams())).max(most.min(8));
            threshold = threshold.min(relocated_density(capacity, group));
        }
        let view = VictimView {
            segments,
            now_sequence: self.log.sequence,
            threshold,
            segments_max: self.reclaim.options.candidates_max,
            live_blocks_max: (room as u64 * capacity).max(capacity),
        };
        self.reclaim.victim.choose(&view)
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
