//! Pacing by how much of the spare space is still free.

use crate::Parameter;
use crate::pacing::{Ahead, Pacing, PacingPolicy, PacingView};
use crate::parameters::Arguments;

/// The share is this power of the pressure, if nobody says.
const POWER: u8 = 3;
/// Part of the free space at the start that must be gone before pressure counts in full.
const RAMP: f64 = 0.2;
/// Cycles begin at this pressure and end below the other one.
const ACTIVE: (f64, f64) = (0.05, 0.02);
/// Cleaning ahead while no client waits begins at this pressure and ends below the other one. Not
/// before most of the spare space is garbage: what is cleaned sooner is fuller, and a load that
/// leaves time between its requests would pay for it with writes upon writes.
const AHEAD: (f64, f64) = (0.85, 0.8);

const _: () = assert!(ACTIVE.1 < ACTIVE.0 && AHEAD.1 < AHEAD.0 && ACTIVE.0 < AHEAD.0);

/// The default pacing.
///
/// # Why this curve
///
/// A victim of utilization `u` costs `u` segments of moves and frees one, so it wins `1 - u`. In
/// steady state reclaim must win what clients fill: it moves `u / (1 - u)` blocks for each block
/// they write, which is a share of exactly `u` of all writes. No policy can know `u` ahead: it
/// depends on the load. But it need not. Let `f` be the free segments above the reserve, `g` the
/// segments' worth of stale blocks, and
///
/// ```text
/// pressure p = g / (g + f)        share = p³
/// ```
///
/// `f + g` is the store's spare space, which only trims and new data change; so `p` is the part of
/// the spare space that has turned into garbage. If the share is below `u`, free space shrinks and
/// the share rises; if above, the reverse. It settles where `p³ = u`, and there is such a point
/// for every `u < 1`, because the share tends to 1 as free space tends to the reserve. There it
/// keeps `f = g·(u^(-1/3) - 1)` free: 8 % of the garbage at `u = 0.8`, 26 % at 0.5. That is the
/// price in write amplification: the free part of the spare space does not let data age. With `p`
/// alone the price would be three times as high; with higher powers it would be lower, and the
/// share would swing more from one segment to the next.
///
/// Pressure is scaled down to nothing where the used part of the store falls to the start
/// utilization (`RAMP`), but the start is never put so near to the reserve that no room is left to
/// react.
#[derive(Clone, Copy, Debug)]
pub struct FreeSpace {
    power: u8,
    ramp: f64,
    active: bool,
    ahead: bool,
    panic: bool,
}

impl Default for FreeSpace {
    fn default() -> Self {
        FreeSpace { power: POWER, ramp: RAMP, active: false, ahead: false, panic: false }
    }
}

impl FreeSpace {
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter::whole(
            "power",
            "reclaim's share is this power of the pressure",
            (1, 16),
            POWER as u64,
        ),
        Parameter::real(
            "ramp",
            "part of the free space at the start over which pressure rises to full",
            (0.01, 1.0),
            RAMP,
        ),
    ];

    pub(super) fn of(arguments: &Arguments) -> Self {
        let (power, ramp) = (arguments.small("power"), arguments.real("ramp"));
        FreeSpace { power, ramp, ..FreeSpace::default() }
    }

    fn pressure(&self, view: &PacingView) -> f64 {
        let slack = view.slack_segments();
        let garbage = view.reclaimable_segments();
        if garbage == 0.0 {
            return 0.0;
        }
        let reserve = f64::from(view.reserve_segments);
        let start = (1.0 - view.start_utilization) * f64::from(view.total_segments) - reserve;
        let start = start.max(reserve).max(2.0);
        let ramp = ((start - slack) / (start * self.ramp)).clamp(0.0, 1.0);
        garbage / (garbage + slack) * ramp
    }
}

/// A switch that turns on at `on` and off below `off`.
fn switch(now: bool, value: f64, (on, off): (f64, f64)) -> bool {
    value >= if now { off } else { on }
}

impl PacingPolicy for FreeSpace {
    fn name(&self) -> &'static str {
        "free-space"
    }

    fn decide(&mut self, view: &PacingView) -> Pacing {
        // One segment above the reserve ends a panic, so it does not flicker at the border.
        self.panic = view.below_reserve()
            || self.panic
                && view.reclaimable_blocks > 0
                && view.free_segments <= view.reserve_segments;
        let pressure = if self.panic { 1.0 } else { self.pressure(view) };
        self.active = switch(self.active, pressure, ACTIVE);
        self.ahead = switch(self.ahead, pressure, AHEAD);

        // Who deletes wants the space back soon, and pays for it once: it is no steady load. So it comes
        // back down to the start, before which pressure fades.
        let above_start = self.active || view.utilization() > view.start_utilization;
        let released = above_start && view.released_blocks >= view.segment_blocks;
        let active = self.active || released || above_start && view.much_deleted;
        let ahead = match view.reclaim_work_waiting {
            true if released => Ahead::Soon,
            true if self.ahead => Ahead::AtRest,
            _ => Ahead::No,
        };
        let idle = match ahead {
            Ahead::No => false,
            Ahead::AtRest => !view.client_work_waiting,
            Ahead::Soon => !view.client_work_under_way,
        };
        let reclaim_share = if self.panic || idle {
            1.0
        } else if active && view.reclaim_work_waiting {
            // Plain products: `powi` may round differently from one processor to the next.
            (1..self.power).fold(pressure, |share, _| share * pressure)
        } else {
            0.0
        };
        Pacing { reclaim_share, pressure, active, ahead, idle, panic: self.panic }
    }
}
