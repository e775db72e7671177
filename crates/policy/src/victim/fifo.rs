//! FIFO: the segments sealed first.

use mjolnir_units::ZoneId;

use crate::victim::{VictimPolicy, VictimView, best_within_budget};

/// Chooses the candidates that were sealed first, whatever they hold. Where every segment is one, that
/// is the log as a circle: it needs no live counts, and every block that lives is moved once a round
/// (analysed by Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR 2012). Whoever leaves
/// out segments that are live all over, as the engine and the replay do, lets cold ones lie, and moves
/// less under skewed loads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl VictimPolicy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        // Equal scores go to the segment sealed first.
        best_within_budget(view, |_| 0.0)
    }
}
