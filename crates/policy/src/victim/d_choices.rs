//! d-choices: the emptiest of a few drawn at random.

use mjolnir_units::ZoneId;

use crate::Parameter;
use crate::parameters::Arguments;
use crate::victim::draw::{Draw, by_zone};
use crate::victim::{SegmentView, VictimPolicy, VictimView, first_within_budget};

/// How many are drawn, if nobody says.
const CHOICES: usize = 10;

/// Draws `d` candidates uniformly (with replacement, so that few segments are no special case) and
/// chooses the emptiest, again and again. With ten it comes close to greedy, and needs no order of
/// all segments: Van Houdt, "A Mean Field Model for a Class of Garbage Collection Algorithms in
/// Flash-based Solid State Drives", SIGMETRICS 2013; Li, Lee and Lui, "Stochastic Modeling of
/// Large-Scale Solid-State Storage Systems", SIGMETRICS 2013.
#[derive(Clone, Debug)]
pub struct DChoices {
    d: usize,
    draw: Draw,
}

impl DChoices {
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter::whole("choices", "segments that are drawn", (1, 1024), CHOICES as u64),
        Parameter::SEED,
    ];

    pub(super) fn of(arguments: &Arguments, seed: u64) -> Self {
        let seed = arguments.whole_if_said("seed").unwrap_or(seed);
        DChoices::new(arguments.whole("choices") as usize, seed)
    }

    /// The emptiest of `d` (at least one) drawn by `seed`.
    pub fn new(d: usize, seed: u64) -> Self {
        DChoices { d: d.max(1), draw: Draw(seed) }
    }
}

impl Default for DChoices {
    fn default() -> Self {
        DChoices::new(CHOICES, 0)
    }
}

impl VictimPolicy for DChoices {
    fn name(&self) -> &'static str {
        "d-choices"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        let mut left: Vec<&SegmentView> = by_zone(view);
        let (draw, d) = (&mut self.draw, self.d);
        let order = std::iter::from_fn(|| {
            if left.is_empty() {
                return None;
            }
            let drawn = (0..d).map(|_| draw.below(left.len()));
            let best = drawn.min_by(|&a, &b| {
                let (a_view, b_view) = (left[a], left[b]);
                let older = (a_view.sealed_sequence, a_view.zone)
                    .cmp(&(b_view.sealed_sequence, b_view.zone));
                a_view.utilization().total_cmp(&b_view.utilization()).then(older)
            });
            best.map(|best| left.swap_remove(best))
        });
        first_within_budget(view, order)
    }
}
