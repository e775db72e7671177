//! Up to which record the log was durable, by what it says itself and by the root.

use std::collections::BTreeSet;

use mjolnir_units::ZoneId;

use crate::format::root::Root;
use crate::recovery::survey::Survey;

/// See the module.
pub(crate) struct Promised {
    /// Records up to here were durable by what the log says: that saves looking whether they arrived.
    pub told: u64,
    /// The same by what the root says besides, which damage to the log must not hide.
    pub durable: u64,
    /// The segments that alone tell so much.
    pub witnesses: BTreeSet<ZoneId>,
}

impl Promised {
    /// What the groups that were found and the root say.
    pub fn of(survey: &Survey, root: &Root) -> Self {
        let promises = || {
            let traces = survey.traces.iter().map(|trace| (trace.zone, trace.durable));
            survey.groups().map(|(zone, group)| (zone, group.durable)).chain(traces)
        };
        let told = promises().map(|(_, durable)| durable).fold(0, u64::max);
        let durable = told.max(root.durable);
        let says = |of: &(ZoneId, u64)| of.1 == durable && durable > root.durable;
        let witnesses = promises().filter(says).map(|(zone, _)| zone).collect();
        Promised { told, durable, witnesses }
    }
}
