//! The durable sequence number, by the log itself and by the root.

use std::collections::BTreeSet;

use mjolnir_units::ZoneId;

use crate::format::root::Root;
use crate::recovery::survey::Survey;

/// See the module.
pub(crate) struct Promised {
    /// Records up to here were durable according to the log: their arrival need not be checked.
    pub told: u64,
    /// The same according to the log and the root. Damage to the log must not hide the root's
    /// number.
    pub durable: u64,
    /// The segments that prove this number, each by itself; empty if the root proves it.
    pub witnesses: BTreeSet<ZoneId>,
}

impl Promised {
    /// Combines the numbers of the groups found and of the root.
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
