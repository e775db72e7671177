//! Each run is read by itself.

use super::{ReadPlanPolicy, ReadPlanView, Span, joined};

/// Reads no block that is not live: what a device with little bandwidth and many requests at once
/// likes, and the yardstick for the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs;

impl ReadPlanPolicy for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn plan(&mut self, view: &ReadPlanView<'_>) -> Vec<Span> {
        joined(view, 0)
    }
}
