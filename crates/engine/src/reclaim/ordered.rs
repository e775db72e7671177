//! Orders to reclaim from whoever coordinates it with that of other stores: hold back, or collect up to a target.

use std::pin::pin;

use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, Pressure};
use mjolnir_units::BLOCK_SIZE;

use crate::drive::{Engine, State};
use crate::space::SegmentState;

/// Free segments beyond the reserve below which reclaim is not held back, at least.
const HARD_SEGMENTS: usize = 2;

/// The same, as a part of all segments: one in so many.
const HARD_SHARE: usize = 64;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Holds reclaim back, or lets it go. It goes on with the cycle that runs.
    pub(crate) fn hold_back(&self, held: bool) {
        let mut state = self.state();
        state.reclaim.held = held;
        if state.is_held_back() && !state.reclaim.running {
            // Clients would wait for what is not being emptied.
            state.forget_candidates();
        }
        drop(state);
        self.call_reclaim();
    }

    /// Reclaims until so many bytes are free, or nothing more can be won.
    pub(crate) async fn collect_until_free(&self, free_bytes: u64) -> Result<(), Error> {
        let lacks = |state: &mut State| {
            let segments = state.space.free_count() + state.space.count(SegmentState::Retiring);
            state.failed.is_none() && (segments as u64) * state.segment_bytes() < free_bytes
        };
        if lacks(&mut self.state()) {
            let collected = pin!(self.collect_telling());
            let enough = pin!(self.wait_while(lacks));
            // Dropped, a collection calls off what is left.
            if let Either::Left((collected, _)) = select(collected, enough).await {
                collected?;
            }
        }
        let retiring = self.state().space.count(SegmentState::Retiring) > 0;
        if retiring { self.checkpoint().await } else { Ok(()) }
    }
}

impl State {
    fn segment_bytes(&self) -> u64 {
        self.space.zone_blocks * BLOCK_SIZE
    }

    /// Free segments below which reclaim begins whatever was ordered.
    fn hard_segments(&self) -> usize {
        self.space.reserve() + HARD_SEGMENTS.max(self.space.segments.len() / HARD_SHARE)
    }

    /// Whether reclaim does not begin by itself, as was ordered.
    pub(crate) fn is_held_back(&self) -> bool {
        self.reclaim.held && self.space.free_count() > self.hard_segments()
    }

    /// How scarce space is, for those who coordinate reclaim.
    pub(crate) fn collect_pressure(&self) -> Pressure {
        let segment_bytes = self.segment_bytes();
        let segments = self.space.segments.len();
        let hard_bytes = self.hard_segments() as u64 * segment_bytes;
        let part = 1.0 - self.reclaim.options.start_utilization.clamp(0.0, 1.0);
        Pressure {
            total_bytes: segments as u64 * segment_bytes,
            free_bytes: self.space.free_count() as u64 * segment_bytes,
            soft_bytes: ((segments as f64 * part) as u64 * segment_bytes).max(hard_bytes),
            hard_bytes,
            winnable_bytes: self.reclaimable_blocks() * BLOCK_SIZE,
            collecting: self.reclaim.running,
            held: self.reclaim.held,
        }
    }
}
