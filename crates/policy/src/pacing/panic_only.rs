//! No pacing: reclaim waits for the reserve, then clients wait for reclaim.

use crate::pacing::{Ahead, Pacing, PacingPolicy, PacingView};

/// Reclaims in panic mode alone, until one segment more than the reserve is free. It has the least
/// write amplification and the worst pauses: the yardstick for every better pacing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PanicOnly {
    panic: bool,
}

impl PacingPolicy for PanicOnly {
    fn name(&self) -> &'static str {
        "panic-only"
    }

    fn decide(&mut self, view: &PacingView) -> Pacing {
        self.panic = view.below_reserve()
            || self.panic
                && view.reclaimable_blocks > 0
                && view.free_segments <= view.reserve_segments;
        let level = if self.panic { 1.0 } else { 0.0 };
        Pacing {
            reclaim_share: level,
            pressure: level,
            active: self.panic,
            ahead: Ahead::No,
            idle: false,
            panic: self.panic,
        }
    }
}
