//! Runs that lie near each other are read together.

use crate::Parameter;
use crate::parameters::Arguments;

use super::{ReadPlanPolicy, ReadPlanView, Span, joined};

/// Stale blocks that are read along rather than start another request: 64 KiB pass in less time
/// than a request takes on a drive of today.
const GAP_BLOCKS: u64 = 16;

/// Reads across short gaps, so that a victim that is mostly live is read in long pieces.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    gap_blocks: u64,
}

impl Near {
    pub(super) const PARAMETERS: &[Parameter] = &[Parameter::whole(
        "gap",
        "blocks that are read along rather than start another request, at most",
        (0, 1 << 20),
        GAP_BLOCKS,
    )];

    pub(super) fn of(arguments: &Arguments) -> Self {
        Near { gap_blocks: arguments.whole("gap") }
    }
}

impl Default for Near {
    fn default() -> Self {
        Near { gap_blocks: GAP_BLOCKS }
    }
}

impl ReadPlanPolicy for Near {
    fn name(&self) -> &'static str {
        "near"
    }

    fn plan(&mut self, view: &ReadPlanView<'_>) -> Vec<Span> {
        joined(view, self.gap_blocks)
    }
}
