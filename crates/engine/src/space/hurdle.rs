//! The reasons why a step cannot succeed at once.

use mjolnir_map::Absent;
use mjolnir_store::Error;

use crate::space::reserve::Claim;

/// The reason why a step cannot succeed at once.
pub(crate) enum Hurdle {
    /// The step needs this map node from the medium.
    Absent(Absent),
    /// No free segment may be opened for this claim.
    NoFreeSegment(Claim),
    /// A checkpoint must come before this claim may change the map.
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
