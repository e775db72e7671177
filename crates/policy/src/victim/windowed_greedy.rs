//! Windowed greedy: the emptiest of the oldest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mjolnir_units::ZoneId;

use crate::Parameter;
use crate::parameters::Arguments;
use crate::victim::{SegmentView, VictimPolicy, VictimView, first_within_budget};

/// The share of the candidates, if nobody says.
const WINDOW: f64 = 0.5;

/// Chooses the emptiest among the segments that were sealed first: a window over the log's tail
/// that slides as segments leave it. Between FIFO (a window of one) and greedy (of all), after Hu,
/// Eleftheriou, Haas, Iliadis and Pletka, "Write Amplification Analysis in Flash-Based Solid State
/// Drives", SYSTOR 2009.
#[derive(Clone, Copy, Debug)]
pub struct WindowedGreedy {
    window: f64,
}

impl WindowedGreedy {
    pub(super) const PARAMETERS: &[Parameter] = &[Parameter::real(
        "window",
        "share of the candidates, the oldest, that is chosen from",
        (0.0, 1.0),
        WINDOW,
    )];

    pub(super) fn of(arguments: &Arguments) -> Self {
        WindowedGreedy::new(arguments.real("window"))
    }

    /// A window of this share of the candidates, 0 to 1, but of at least one.
    pub fn new(window: f64) -> Self {
        WindowedGreedy { window: if window.is_nan() { 1.0 } else { window.clamp(0.0, 1.0) } }
    }
}

impl Default for WindowedGreedy {
    /// Half of the candidates.
    fn default() -> Self {
        WindowedGreedy::new(WINDOW)
    }
}

impl VictimPolicy for WindowedGreedy {
    fn name(&self) -> &'static str {
        "windowed-greedy"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        let mut oldest: Vec<&SegmentView> = view.candidates().collect();
        oldest.sort_unstable_by_key(|segment| (segment.sealed_sequence, segment.zone));
        let size = ((self.window * oldest.len() as f64).ceil() as usize).max(1);
        let mut next = size.min(oldest.len());
        // Utilization is no negative number, so its bits order as it does; places order by age.
        let ranked = |place: usize| Reverse((oldest[place].utilization().to_bits(), place));
        let mut window: BinaryHeap<_> = (0..next).map(ranked).collect();
        let order = std::iter::from_fn(|| {
            let Reverse((_, best)) = window.pop()?;
            if next < oldest.len() {
                window.push(ranked(next));
                next += 1;
            }
            Some(oldest[best])
        });
        first_within_budget(view, order)
    }
}
