//! Cost-benefit: won space, weighed by how long it will stay won.

use mjolnir_units::ZoneId;

use crate::victim::{VictimPolicy, VictimView, best_within_budget};

/// Chooses by benefit over cost, `(1 - u) / 2u × age`, where `u` is the segment's utilization.
///
/// Old data is unlikely to die soon, so waiting wins nothing more from its segment; young data is
/// worth waiting for. The idea is that of LFS (Rosenblum and Ousterhout, "The Design and
/// Implementation of a Log-Structured File System", 1992), which divides by `1 + u` because it
/// reads whole segments; where only live blocks are read, as here, reading costs `u` and writing
/// `u`: Kawaguchi, Nishioka and Motoda, "A Flash-Memory Based File System", USENIX 1995.
///
/// Age is counted in log sequence numbers since the youngest block's birth, so relocation does not
/// make data young.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn choose(&mut self, view: &VictimView<'_>) -> Vec<ZoneId> {
        best_within_budget(view, |segment| {
            let utilization = segment.utilization();
            if utilization == 0.0 {
                return f64::INFINITY; // Nothing to move: no age makes it a better one.
            }
            // One more than the age, so that among segments of this very moment the emptier wins.
            let age = segment.age(view.now_sequence) as f64 + 1.0;
            (1.0 - utilization) / (2.0 * utilization) * age
        })
    }
}
