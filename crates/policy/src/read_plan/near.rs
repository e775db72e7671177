//! Runs that lie near each other are read together.

use super::{ReadPlanPolicy, ReadPlanView, Span, joined};

/// Stale blocks that are read along rather than start another request: 64 KiB pass in less time
/// than a request takes on a drive of today.
const GAP_BLOCKS: u64 = 16;

/// Reads across short gaps, so that a victim that is mostly live is read in long pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Near;

impl ReadPlanPolicy for Near {
    fn name(&self) -> &'static str {
        "near"
    }

    fn plan(&mut self, view: &ReadPlanView<'_>) -> Vec<Span> {
        joined(view, GAP_BLOCKS)
    }
}
