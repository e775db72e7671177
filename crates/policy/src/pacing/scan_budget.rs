//! How much of a processor marking may take.

use std::time::Duration;

/// Scanning that used less than its budget may catch up by at most this much.
const SAVED_MAX: Duration = Duration::from_millis(5);
/// The longest rest at once, so that a rise in pressure is noticed soon.
const REST_MAX: Duration = Duration::from_millis(100);

/// Tells a scan how long to rest so that it keeps to a share of processor time: a smaller one
/// while space is plentiful, a larger one as it gets scarce.
///
/// Scan a bounded piece, then call [`rest`](ScanBudget::rest) with what passed since the last
/// call, and rest and call it again until it says zero. Time spent on other work or in rests is wall
/// time without processor time, so it pays for later pieces; but only `SAVED_MAX` of it is saved up.
#[derive(Clone, Copy, Debug)]
pub struct ScanBudget {
    share_min: f64,
    share_max: f64,
    /// Processor seconds used beyond the budget; below zero where some is saved up.
    overdrawn_s: f64,
}

impl Default for ScanBudget {
    /// 30 % of one processor, and one whole processor as space runs out.
    fn default() -> Self {
        ScanBudget::new(0.3, 1.0)
    }
}

impl ScanBudget {
    /// A budget of `share_min` processors that rises to `share_max` as space gets scarce. More
    /// than 1 is for scans on several processors. Shares below a thousandth count as one, and a
    /// `share_max` below `share_min` as equal to it.
    pub fn new(share_min: f64, share_max: f64) -> Self {
        let share_min = share_min.max(0.001);
        ScanBudget { share_min, share_max: share_max.max(share_min), overdrawn_s: 0.0 }
    }

    /// The share allowed at a pressure of 0 to 1 ([`Pacing::pressure`](super::Pacing)), in
    /// processors.
    pub fn share(&self, pressure: f64) -> f64 {
        self.share_min + (self.share_max - self.share_min) * pressure.clamp(0.0, 1.0)
    }

    /// How long to rest now; zero to go on with the next piece. `cpu` is the processor time that scanning
    /// used since the last call, of all its workers together; `wall` is the time that passed since then,
    /// rests included.
    pub fn rest(&mut self, cpu: Duration, wall: Duration, pressure: f64) -> Duration {
        let share = self.share(pressure);
        let overdrawn = self.overdrawn_s + cpu.as_secs_f64() - share * wall.as_secs_f64();
        self.overdrawn_s = overdrawn.max(-SAVED_MAX.as_secs_f64());
        if self.overdrawn_s <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((self.overdrawn_s / share).min(REST_MAX.as_secs_f64()))
    }
}
