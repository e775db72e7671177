//! Why a store with a damaged log is not opened, and the ways on.

use mjolnir_store::Error;
use mjolnir_store::report::DamagedPlace;

/// What to do about damage that keeps a store from opening.
pub(crate) const WAYS_ON: &str = "`mjolnir check` tells what is lost, and `mjolnir salvage` accepts \
                                  that, so that the store opens again";

/// A damaged place in words that say what can be done.
pub(crate) fn refusal(place: &DamagedPlace) -> Error {
    crate::fault::damaged(format!(
        "the store is damaged in segment {}, block {}: {}; {WAYS_ON}",
        place.zone, place.block, place.what
    ))
}
