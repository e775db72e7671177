//! Why a step could not be taken at once.

use mjolnir_map::Absent;
use mjolnir_store::Error;

use crate::space::reserve::Claim;

/// Why a step could not be taken at once.
pub(crate) enum Hurdle {
    /// The map needs this node from media.
    Absent(Absent),
    /// No segment can be opened for this claim.
    NoFreeSegment(Claim),
    /// A checkpoint has to come first.
    CheckpointFirst(Claim),
    Failed(Error),
}

impl From<Absent> for Hurdle {
    fn from(absent: Absent) -> Self {
        Hurdle::Absent(absent)
    }
}

impl From<Error> for Hurdle {
    fn from(error: Error) -> Self {
        Hurdle::Failed(error)
    }
}
