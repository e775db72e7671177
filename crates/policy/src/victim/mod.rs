//! Which sealed segments to reclaim next.
//!
//! The engine marks, so that it knows each sealed segment's live blocks, and then asks a
//! [`VictimPolicy`] which of them to relocate. The budget in the view is what keeps memory
//! bounded: the reverse index of the candidates costs memory for each live block, so there are
//! fewer candidates where memory is short, never more memory (Mjölnir, INFLOW'15, section 4.2.1,
//! selective segment tracking).

mod age_threshold;
mod cost_benefit;
mod cost_benefit_sqrt;
mod d_choices;
mod draw;
mod fifo;
mod greedy;
mod random;
mod rank;
mod view;
mod windowed_greedy;

pub use age_threshold::AgeThreshold;
pub use cost_benefit::CostBenefit;
pub use cost_benefit_sqrt::CostBenefitSqrt;
pub use d_choices::DChoices;
pub use fifo::Fifo;
pub use greedy::Greedy;
pub use random::Random;
pub use rank::{best_within_budget, first_within_budget};
pub use view::{SegmentView, VictimView};
pub use windowed_greedy::WindowedGreedy;

use mjolnir_units::ZoneId;

use crate::UnknownPolicy;
use crate::registry::{self, Entry};

/// Chooses victims.
///
/// # Contract
///
/// * The answer names only candidates of the view ([`VictimView::candidates`]), none twice, best
///   first, and keeps to the view's budget of segments and of live blocks.
/// * The answer is empty if nothing is worth moving.
/// * Equal views (and equal histories of views) give equal answers.
pub trait VictimPolicy: Send {
    /// What the policy is called in settings and results.
    fn name(&self) -> &'static str;

    /// The segments to relocate, best first.
    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId>;
}

const ENTRIES: &[Entry<dyn VictimPolicy>] = &[
    ("greedy", || Box::new(Greedy)),
    ("cost-benefit", || Box::new(CostBenefit)),
    ("cost-benefit-sqrt", || Box::new(CostBenefitSqrt)),
    ("fifo", || Box::new(Fifo)),
    ("random", || Box::new(Random::default())),
    ("d-choices", || Box::new(DChoices::default())),
    ("windowed-greedy", || Box::new(WindowedGreedy::default())),
    ("age-threshold", || Box::new(AgeThreshold::default())),
];

/// The victim policy called `name`.
pub fn by_name(name: &str) -> Result<Box<dyn VictimPolicy>, UnknownPolicy> {
    registry::find("victim", ENTRIES, name).map(|make| make())
}

/// The same, whose lots are drawn from `seed` if it draws any.
pub fn seeded(name: &str, seed: u64) -> Result<Box<dyn VictimPolicy>, UnknownPolicy> {
    match name {
        "random" => Ok(Box::new(Random::seeded(seed))),
        "d-choices" => Ok(Box::new(DChoices::new(d_choices::CHOICES, seed))),
        _ => by_name(name),
    }
}

/// Names of all victim policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|(name, _)| *name)
}
