//! Age threshold: the emptiest of those that are old enough.

use mjolnir_units::ZoneId;

use crate::Parameter;
use crate::parameters::Arguments;
use crate::victim::{VictimPolicy, VictimView, best_within_budget};

/// The share of the oldest one's age, if nobody says.
const SHARE: f64 = 0.3;

/// Chooses the emptiest of the segments that are old enough; where none is, the oldest. A young
/// segment is still losing blocks, and is cheaper later: Menon and Stockmeyer, "An Age-Threshold
/// Algorithm for Garbage Collection in Log-Structured Arrays and File Systems", 1998.
///
/// Age is counted in log sequence numbers since the segment was sealed, and the threshold as a
/// share of the oldest candidate's age, so that it fits every size of store.
#[derive(Clone, Copy, Debug)]
pub struct AgeThreshold {
    share: f64,
}

impl AgeThreshold {
    pub(super) const PARAMETERS: &[Parameter] = &[Parameter::real(
        "share",
        "share of the oldest one's age at which a segment is old enough",
        (0.0, 1.0),
        SHARE,
    )];

    pub(super) fn of(arguments: &Arguments) -> Self {
        AgeThreshold::new(arguments.real("share"))
    }

    /// A segment is old enough at this share of the oldest one's age, 0 (greedy) to 1 (FIFO).
    pub fn new(share: f64) -> Self {
        AgeThreshold { share: if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) } }
    }
}

impl Default for AgeThreshold {
    /// Three tenths of the oldest one's age.
    fn default() -> Self {
        AgeThreshold::new(SHARE)
    }
}

impl VictimPolicy for AgeThreshold {
    fn name(&self) -> &'static str {
        "age-threshold"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        let age = |sealed_sequence: u64| view.now_sequence.saturating_sub(sealed_sequence) as f64;
        let oldest =
            view.candidates().map(|segment| age(segment.sealed_sequence)).fold(0.0, f64::max);
        let threshold = oldest * self.share;
        best_within_budget(view, |segment| {
            let age = age(segment.sealed_sequence);
            // Old enough: 1 to 2, by what is won. Too young: below 1, by age.
            if age >= threshold { 2.0 - segment.utilization() } else { age / (oldest + 1.0) }
        })
    }
}
