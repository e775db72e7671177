//! Which sealed segments to reclaim next.
//!
//! The engine marks, so that it knows each sealed segment's live blocks, and then asks a
//! [`VictimPolicy`] which of them to relocate. The budget in the view is what keeps memory
//! bounded: the reverse index of the candidates costs memory for each live block, so there are
//! fewer candidates where memory is short, never more memory (Mjölnir, INFLOW'15, section 4.2.1,
//! selective segment tracking).

mod cost_benefit;
mod greedy;
mod rank;
mod view;

pub use cost_benefit::CostBenefit;
pub use greedy::Greedy;
pub use rank::best_within_budget;
pub use view::{SegmentView, VictimView};

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

const ENTRIES: &[Entry<dyn VictimPolicy>] =
    &[("greedy", || Box::new(Greedy)), ("cost-benefit", || Box::new(CostBenefit))];

/// The victim policy called `name`.
pub fn by_name(name: &str) -> Result<Box<dyn VictimPolicy>, UnknownPolicy> {
    registry::find("victim", ENTRIES, name)
}

/// Names of all victim policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|(name, _)| *name)
}
