//! The end of replay, and whether it is a gap: damage took records that a power cut cannot have
//! taken.

use std::collections::BTreeSet;

use mjolnir_store::Error;
use mjolnir_store::report::DamagedPlace;
use mjolnir_units::ZoneId;

use crate::fault;
use crate::recovery::arrivals::Payload;
use crate::recovery::found_log::FoundLog;
use crate::recovery::promised::Promised;
use crate::recovery::refusal::{WAYS_ON, refusal};
use crate::recovery::survey::{LostGroups, Trace};

/// The result of replay.
pub(crate) struct Replayed {
    /// The first record that was not replayed.
    pub next: u64,
    /// The results for the groups that were checked for arrival.
    pub arrived: Vec<Payload>,
}

impl Replayed {
    /// Number of records that arrived but were not replayed, because an earlier record is missing.
    pub fn dropped_records(&self, log: &FoundLog<'_>) -> u64 {
        let whole = |unsure: usize| matches!(self.arrived[unsure], Payload::Whole);
        let left = log.records.iter().filter(|of| of.sequence >= self.next);
        let left = left.filter(|of| of.unsure.is_none_or(whole));
        left.map(|of| of.sequence).collect::<BTreeSet<u64>>().len() as u64
    }

    /// Among all the `damage` found, the lost groups that may have held the record at which replay
    /// ended, or a later one.
    pub fn lost(
        &self,
        damage: Vec<LostGroups>,
        traces: &[Trace],
        log: &FoundLog<'_>,
        zone_blocks: u64,
    ) -> Vec<LostGroups> {
        // Damage is harmless to the log if the checkpoint contains all records that it took.
        let fatal = |lost: &LostGroups| lost.before.is_none_or(|before| before > self.next);
        let mut lost: Vec<LostGroups> = damage.into_iter().filter(fatal).collect();
        lost.extend(self.unreadable(log));
        let missed = traces.iter().filter(|trace| trace.durable >= self.next);
        lost.extend(missed.map(|trace| {
            let what = format!(
                "the segment has neither a header nor a first group, but a later group, which says that all \
                 records up to {} were durable",
                trace.durable
            );
            let whole = LostGroups::whole_segment(trace.zone, zone_blocks, &what);
            LostGroups { certain: false, ..whole } // The missing records may have been elsewhere.
        }));
        lost
    }

    /// Unreadable groups that hold the record at which replay ended. Unreadable groups behind that
    /// do not matter.
    fn unreadable(&self, log: &FoundLog<'_>) -> impl Iterator<Item = LostGroups> {
        self.arrived.iter().zip(log.unsure()).filter_map(|(arrived, (zone, group))| {
            let Payload::Unreadable(what) = arrived else { return None };
            let ends_here = group.records.iter().any(|(sequence, _)| *sequence == self.next);
            let block = u64::from(group.offset) + 1;
            let place = DamagedPlace { zone: zone.0, block, what: what.clone() };
            ends_here.then_some(LostGroups { place, certain: true, before: None, bytes: 0 })
        })
    }
}

/// A gap: missing records that a power cut cannot have taken.
pub(crate) struct Gap {
    /// The first missing record.
    first: u64,
    /// Records up to here were durable.
    durable: u64,
    /// Whether the log itself says so, or only the root.
    told_by_log: bool,
    /// The lost groups that may have held the missing records.
    pub lost: Vec<LostGroups>,
}

impl Gap {
    /// The gap at which replay ended; `None` if it ended without one.
    pub fn find(replayed: &Replayed, lost: Vec<LostGroups>, promised: &Promised) -> Option<Self> {
        let Promised { told, durable, .. } = *promised;
        let first = replayed.next;
        let is_gap = first <= durable || lost.iter().any(|lost| lost.certain);
        is_gap.then_some(Gap { first, durable, told_by_log: told == durable, lost })
    }

    /// The error that refuses to open the store.
    pub fn refusal(&self) -> Error {
        let lost = self.lost.iter().find(|lost| lost.certain).or(self.lost.first());
        lost.map_or_else(
            || {
                let (first, durable) = (self.first, self.durable);
                let teller = if self.told_by_log { "a later one" } else { "the store's root" };
                fault::damaged(format!(
                    "the log is damaged: record {first} is missing, but {teller} says that all records up to {durable} \
                     were durable; {WAYS_ON}"
                ))
            },
            |lost| refusal(&lost.place),
        )
    }

    /// The segments that prove the gap.
    pub fn segments(&self) -> Vec<ZoneId> {
        self.lost.iter().map(|lost| ZoneId(lost.place.zone)).collect()
    }
}
