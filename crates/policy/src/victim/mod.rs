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

use crate::parameters::Arguments;
use crate::registry::{self, Entry, Found};
use crate::{Parameter, PolicyError};

/// Chooses victims.
///
/// # Contract
///
/// * The answer names only candidates of the view ([`VictimView::candidates`]), none twice, best
///   first, and keeps to the view's budget of segments and of live blocks.
/// * The answer is empty if nothing is worth moving.
/// * Equal views (and equal histories of views) give equal answers.
pub trait VictimPolicy: Send {
    /// The policy's name in settings and results, without its parameters.
    fn name(&self) -> &'static str;

    /// The segments to relocate, best first.
    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId>;
}

/// By parameters, and by what lots are drawn from if they do not say.
type Make = fn(&Arguments, u64) -> Box<dyn VictimPolicy>;

const ENTRIES: &[Entry<Make>] = &[
    Entry::new("greedy", &[], |_, _| Box::new(Greedy)),
    Entry::new("cost-benefit", &[], |_, _| Box::new(CostBenefit)),
    Entry::new("cost-benefit-sqrt", &[], |_, _| Box::new(CostBenefitSqrt)),
    Entry::new("fifo", &[], |_, _| Box::new(Fifo)),
    Entry::new("random", Random::PARAMETERS, |of, seed| Box::new(Random::of(of, seed))),
    Entry::new("d-choices", DChoices::PARAMETERS, |of, seed| Box::new(DChoices::of(of, seed))),
    Entry::new("windowed-greedy", WindowedGreedy::PARAMETERS, |of, _| {
        Box::new(WindowedGreedy::of(of))
    }),
    Entry::new("age-threshold", AgeThreshold::PARAMETERS, |of, _| Box::new(AgeThreshold::of(of))),
];

fn find(text: &str) -> Result<Found<Make>, PolicyError> {
    registry::find("victim", ENTRIES, text)
}

/// The victim policy that a text asks for: its name, or its name with parameters, as in
/// `d-choices:choices=4`.
pub fn by_name(text: &str) -> Result<Box<dyn VictimPolicy>, PolicyError> {
    seeded(text, 0)
}

/// The same, whose lots are drawn from `seed` if it draws any and the text says no seed.
pub fn seeded(text: &str, seed: u64) -> Result<Box<dyn VictimPolicy>, PolicyError> {
    find(text).map(|found| (found.entry.make)(&found.arguments, seed))
}

/// The shortest text that asks for the same policy: parameters that have their default are left out.
pub fn shortest(text: &str) -> Result<String, PolicyError> {
    find(text).map(|found| found.shortest())
}

/// The value of a parameter that is a whole number, of the policy that a text asks for; `None` if there is no
/// such policy, or it has no such parameter with a value.
pub fn whole_parameter(text: &str, name: &str) -> Option<u64> {
    let found = find(text).ok()?;
    let known = found.entry.parameters.iter().any(|parameter| parameter.name == name);
    known.then(|| found.arguments.whole_if_said(name)).flatten()
}

/// Names of all victim policies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// All victim policies with their parameters, the default first.
pub fn list() -> impl Iterator<Item = (&'static str, &'static [Parameter])> {
    ENTRIES.iter().map(|entry| (entry.name, entry.parameters))
}
