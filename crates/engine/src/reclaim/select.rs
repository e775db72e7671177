//! Select: ask the victim policy, within the memory and space there is.

use mjolnir_device::{Device, Runtime};
use mjolnir_policy::victim::{SegmentView, VictimView};
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::format::segment::Footer;
use crate::space::Segment;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Chooses the next candidates, after a mark that began when the first `calls` calls for reclaim by name
    /// had come. Returns how many.
    pub(crate) fn select(&self, calls: u64) -> usize {
        let mut guard = self.state();
        let state = &mut *guard;
        state.follow_plan();
        if state.closing {
            return 0;
        }
        if !state.is_selection_due() {
            // The mark may have told of more to win.
            state.update_pacing();
        }
        let mut chosen = state.choose_for_callers(calls);
        let planned = !chosen.is_empty();
        if !planned && state.is_due_by_itself() {
            let segments = state.eligible(|_, _| true, |segment| segment.live, false);
            chosen = state.choose(&segments);
            state.add_least_worn(&mut chosen, |zone| self.device().abilities().erases(zone));
        }
        state.reclaim.asked.candidates_are_planned(planned);
        state.reclaim.index.choose(chosen);
        state.reclaim.index.len()
    }

    /// Where all segments are to be moved, and all of them can be candidates, there is nothing to choose: they
    /// are before a mark has counted what is live, which so need not be followed by another.
    pub(crate) fn select_all(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let unasked = !state.reclaim.is_forced() || !state.moves_everything();
        if unasked || state.closing || !state.reclaim.index.is_empty() {
            return;
        }
        let calls = state.reclaim.asked.calls();
        let plan_due = state.is_plan_due(calls);
        let wanted = |zone, segment: &Segment| match plan_due {
            true => state.was_there(segment),
            false => state.is_planned(zone, segment),
        };
        // Of what was live once some may not be any more, but no more is.
        let segments =
            state.eligible(wanted, |segment| segment.live.or(Some(segment.payload)), true);
        let chosen = state.choose(&segments);
        if chosen.len() == segments.len() {
            if plan_due {
                state.plan(chosen.iter().copied(), calls);
            }
            state.reclaim.asked.candidates_are_planned(true);
            state.reclaim.index.choose(chosen);
        }
    }
}

impl State {
    /// Whether there is reason to reclaim something.
    fn is_selection_due(&self) -> bool {
        self.reclaim.is_forced() || self.is_due_by_itself()
    }

    /// The same, though nobody asked for it by name.
    fn is_due_by_itself(&self) -> bool {
        self.reclaim.urgent || self.reclaim.last_pacing.active
    }

    /// Candidates for those who asked for reclaim by name, of the plan alone: none where clients lack space,
    /// since what is emptiest comes first then.
    fn choose_for_callers(&mut self, calls: u64) -> Vec<ZoneId> {
        let everything = self.moves_everything();
        if self.is_plan_due(calls) {
            let threshold = self.threshold();
            let there = |_, segment: &Segment| self.was_there(segment);
            let segments = self.eligible(there, |segment| segment.live, everything);
            let pays = |segment: &SegmentView| segment.utilization() <= threshold;
            let zones: Vec<ZoneId> = segments
                .iter()
                .filter(|segment| pays(segment))
                .map(|segment| segment.zone)
                .collect();
            self.plan(zones, calls);
        }
        if !self.reclaim.is_forced() || self.reclaim.urgent || self.reclaim.last_pacing.panic {
            return Vec::new();
        }
        let planned = |zone, segment: &Segment| self.is_planned(zone, segment);
        let segments = self.eligible(planned, |segment| segment.live, everything);
        let chosen = self.choose(&segments);
        if chosen.is_empty() {
            self.end_plan();
        }
        chosen
    }

    /// Those `among` the sealed segments that may be candidates: what wins something, or `everything`. `live`
    /// tells how many blocks of one are live, if it is known.
    fn eligible(
        &self,
        among: impl Fn(ZoneId, &Segment) -> bool,
        live: impl Fn(&Segment) -> Option<u32>,
        everything: bool,
    ) -> Vec<SegmentView> {
        let capacity = self.space.zone_blocks;
        let data = self.space.sealed_data();
        data.filter(|(zone, segment)| among(*zone, segment))
            .filter_map(|(zone, segment)| {
                let live = live(segment)?;
                if segment.stuck_with(live).is_some() {
                    return None;
                }
                // What is wholly live wins nothing. But a short one, such as every restart leaves, can be joined
                // with others.
                let short = u64::from(segment.payload) < capacity / 2;
                let eligible = everything || live < segment.payload || short;
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
        let view = VictimView {
            segments,
            now_sequence: self.log.sequence,
            threshold: self.threshold(),
            segments_max: self.reclaim.options.candidates_max,
            live_blocks_max: (room as u64 * capacity).max(capacity),
        };
        self.reclaim.victim.choose(&view)
    }

    /// The part of a segment that may be live where moving it pays.
    fn threshold(&self) -> f64 {
        let threshold = self.reclaim.options.candidate_threshold;
        if threshold >= 1.0 {
            return threshold;
        }
        let most = self.log.group_blocks_max();
        // A victim's blocks are divided over streams.
        let group = (most / u32::from(self.placement.reclaim_streams())).max(most.min(8));
        threshold.min(relocated_density(self.space.zone_blocks, group))
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
