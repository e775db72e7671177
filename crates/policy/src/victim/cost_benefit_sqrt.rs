//! Cost-benefit with a weaker pull towards age.

use mjolnir_units::ZoneId;

use crate::victim::{VictimPolicy, VictimView, best_within_budget};

/// Chooses by `(1 - u) / u × √age`, where `u` is the segment's utilization and its age counts from
/// its sealing: the formula of SepBIT's simulator (Wang et al., FAST'22), kept so that figures can
/// be put beside that one's. It differs from [`CostBenefit`](super::CostBenefit) twice: age counts
/// by its root, and relocation makes data young.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefitSqrt;

impl VictimPolicy for CostBenefitSqrt {
    fn name(&self) -> &'static str {
        "cost-benefit-sqrt"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        best_within_budget(view, |segment| {
            let utilization = segment.utilization();
            if utilization == 0.0 {
                return f64::INFINITY;
            }
            let age = view.now_sequence.saturating_sub(segment.sealed_sequence) as f64;
            (1.0 - utilization) / utilization * age.sqrt()
        })
    }
}
