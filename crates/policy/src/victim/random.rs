//! Random: any segment.

use mjolnir_units::ZoneId;

use crate::Parameter;
use crate::parameters::Arguments;
use crate::victim::draw::{Draw, by_zone};
use crate::victim::{VictimPolicy, VictimView, first_within_budget};

/// Chooses uniformly among the candidates. Its write amplification under uniform load is one over
/// the spare factor: the yardstick of what choosing is worth.
#[derive(Clone, Debug)]
pub struct Random {
    draw: Draw,
}

impl Random {
    pub(super) const PARAMETERS: &[Parameter] = &[Parameter::SEED];

    pub(super) fn of(arguments: &Arguments, seed: u64) -> Self {
        Random::seeded(arguments.whole_if_said("seed").unwrap_or(seed))
    }

    /// Draws by this seed.
    pub fn seeded(seed: u64) -> Self {
        Random { draw: Draw(seed) }
    }
}

impl Default for Random {
    fn default() -> Self {
        Random::seeded(0)
    }
}

impl VictimPolicy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        let mut left = by_zone(view);
        let draw = &mut self.draw;
        let order = std::iter::from_fn(|| match left.len() {
            0 => None,
            count => Some(left.swap_remove(draw.below(count))),
        });
        first_within_budget(view, order)
    }
}
