//! Select: ask the victim policy, within the memory and space there is.

use mjolnir_device::{Device, Runtime};
use mjolnir_policy::victim::{SegmentView, VictimView};
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::format::segment::Footer;
use crate::space::Segment;

/// Bad segments that are emptied in one cycle, at most.
const BAD_AT_ONCE: usize = 8;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Chooses the next candidates, after a mark that began when the first `calls` calls for reclaim by name
    /// had come. Returns how many.
    pub(in crate::reclaim) fn select(&self, calls: u64) -> usize {
        let mut guard = self.state();
        let state = &mut *guard;
        state.reclaim.asked.follow_plan(&state.space);
        if state.closing {
            return 0;
        }
        if !state.is_selection_due() {
            // The mark may have found more to win.
            state.update_pacing();
        }
        let mut chosen = state.choose_for_callers(calls);
        let planned = !chosen.is_empty();
        if !planned {
            chosen = state.choose_bad();
        }
        if !chosen.is_empty() {
            state.reclaim.asked.candidates_are_planned(planned);
            state.reclaim.index.choose(chosen);
            return state.reclaim.index.len();
        }
        if !planned && state.is_due_by_itself() {
            let segments = state.eligible(|_, _| true, |segment| segment.live, false);
            chosen = state.choose(&segments);
            state.add_least_worn(&mut chosen, |zone| self.device().abilities().erases(zone));
        }
        state.reclaim.asked.candidates_are_planned(planned);
        state.reclaim.index.choose(chosen);
        state.reclaim.index.len()
    }

    /// Where all segments are to be moved, and all of them can be candidates, there is nothing to choose: makes
    /// them candidates before the mark, so that one mark both counts their live blocks and finds their referrers.
    pub(in crate::reclaim) fn select_all(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let unasked = !state.reclaim.is_forced() || !state.reclaim.moves_everything();
        if unasked || state.closing || !state.reclaim.index.is_empty() {
            return;
        }
        let calls = state.reclaim.asked.calls();
        let plan_due = state.reclaim.asked.is_plan_due(calls);
        let wanted = |zone, segment: &Segment| match plan_due {
            true => state.reclaim.was_there(segment),
            false => state.reclaim.asked.is_planned(zone, segment),
        };
        // A block that was stale never becomes live again: the last count is an upper bound.
        let segments =
            state.eligible(wanted, |segment| segment.live.or(Some(segment.payload)), true);
        let chosen = state.choose(&segments);
        if chosen.len() == segments.len() {
            if plan_due {
                state.reclaim.plan(chosen.iter().copied(), &state.space, calls);
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

    /// Bad segments: what lives in them is moved whether it pays or not.
    fn choose_bad(&self) -> Vec<ZoneId> {
        let is_bad = |zone, _: &Segment| self.space.is_bad(zone);
        let mut bad = self.eligible(is_bad, |segment| segment.live, true);
        bad.sort_by_key(|segment| segment.live_blocks);
        let room = self.space.free_count().saturating_sub(self.space.checkpoint_reserve() + 1);
        let mut room = room as u64 * self.space.zone_blocks;
        let fits = |segment: &&SegmentView| -> bool {
            let fits = segment.live_blocks <= room;
            room = room.saturating_sub(segment.live_blocks);
            fits
        };
        bad.iter().take_while(fits).take(BAD_AT_ONCE).map(|segment| segment.zone).collect()
    }

    /// Candidates for those who asked for reclaim by name, out of the plan alone. None where clients lack space,
    /// since the emptiest segments come first then.
    fn choose_for_callers(&mut self, calls: u64) -> Vec<ZoneId> {
        let everything = self.reclaim.moves_everything();
        if self.reclaim.asked.is_plan_due(calls) {
            let threshold = self.threshold();
            let there = |_, segment: &Segment| self.reclaim.was_there(segment);
            let segments = self.eligible(there, |segment| segment.live, everything);
            let pays = |segment: &SegmentView| segment.utilization() <= threshold;
            let zones: Vec<ZoneId> = segments
                .iter()
                .filter(|segment| pays(segment))
                .map(|segment| segment.zone)
                .collect();
            self.reclaim.plan(zones, &self.space, calls);
        }
        if !self.reclaim.is_forced() || self.reclaim.urgent || self.reclaim.last_pacing.panic {
            return Vec::new();
        }
        let planned = |zone, segment: &Segment| self.reclaim.asked.is_planned(zone, segment);
        let segments = self.eligible(planned, |segment| segment.live, everything);
        let chosen = self.choose(&segments);
        if chosen.is_empty() {
            self.reclaim.asked.end_plan();
        }
        chosen
    }

    /// The sealed segments that may be candidates, `among` these: those that win something, or `everything`.
    /// `live` tells the live blocks of a segment, if they are known.
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
                // A wholly live segment wins nothing. But a short one, such as every restart leaves, can be joined
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
        // Live blocks that may be moved: they fill the segments that reclaim may take, less one that is filled
        // in part.
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

    /// The largest live part of a segment that it pays to move.
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
