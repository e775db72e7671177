//! Greedy: the emptiest segments first.

use mjolnir_units::ZoneId;

use crate::victim::{VictimPolicy, VictimView, best_within_budget};

/// Chooses the segments with the fewest live blocks for their size: the least moved for each
/// block won now. It is optimal where all data is equally likely to be overwritten, and the policy
/// of the paper (Mjölnir, INFLOW'15, section 4.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        best_within_budget(view, |segment| 1.0 - segment.utilization())
    }
}
