//! Errors for a store that is not opened because its log is damaged, with the ways on.

use mjolnir_store::Error;
use mjolnir_store::report::DamagedPlace;

/// Advice for damage that keeps a store from opening.
pub(crate) const WAYS_ON: &str = "`mjolnir check` tells what is lost, and `mjolnir salvage` accepts \
                                  that, so that the store opens again";

/// The error for a damaged place, with advice.
pub(crate) fn refusal(place: &DamagedPlace) -> Error {
    crate::fault::damaged(format!(
        "the store is damaged in segment {}, block {}: {}; {WAYS_ON}",
        place.zone, place.block, place.what
    ))
}
