//! The appends in flight, in the order of their addresses in each segment.
//!
//! Recovery finds a group along the chain of groups before it. So a group counts as written only
//! once all appends ahead of it in its segment are, though the device may complete them in another
//! order. Until then its content stays in memory: if one ahead of it fails, it is logged again with
//! that one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mjolnir_units::{Pba, ZoneId};

use crate::format::record::Record;

/// A group, a segment's header or a part of its footer, which is not written yet.
pub(crate) struct InFlight {
    pub(super) zone: ZoneId,
    pub(super) incarnation: u64,
    /// Its first block within the zone.
    pub(super) offset: u32,
    /// Lowest sequence number in the group. Flushes up to that number or a later one wait for it.
    pub(super) first_sequence: u64,
    /// First block of the payload, which stops being pending once it is written.
    pub(super) from: Pba,
    /// A group's records.
    pub(super) records: Vec<(u64, Record)>,
    /// A group's payload blocks; `None` for a header or footer.
    pub(super) payload: Option<u32>,
    /// Whether the device has written it.
    pub(super) done: bool,
    /// What was appended ahead of the payload: a group's header, or all of another append.
    pub(super) head: Bytes,
}

impl InFlight {
    pub(super) fn group(
        (zone, incarnation): (ZoneId, u64),
        offset: u32,
        first_sequence: u64,
        from: Pba,
        records: Vec<(u64, Record)>,
        payload: u32,
        head: Bytes,
    ) -> Self {
        let payload = Some(payload);
        InFlight {
            zone,
            incarnation,
            offset,
            first_sequence,
            from,
            records,
            payload,
            done: false,
            head,
        }
    }

    /// A segment's header, or a part of its footer.
    pub(super) fn bare(
        (zone, incarnation): (ZoneId, u64),
        offset: u32,
        first_sequence: u64,
        at: Pba,
        head: Bytes,
    ) -> Self {
        let (records, payload) = (Vec::new(), None);
        InFlight {
            zone,
            incarnation,
            offset,
            first_sequence,
            from: at,
            records,
            payload,
            done: false,
            head,
        }
    }
}

/// The appends to one segment.
#[derive(Default)]
struct Chain {
    /// Those that are not written with all ahead of them, in the order of their addresses.
    ids: VecDeque<u64>,
    /// Those that the device has not completed.
    appends: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Chains(BTreeMap<ZoneId, Chain>);

impl Chains {
    /// An append to the zone is handed to the device.
    pub fn sent(&mut self, zone: ZoneId, id: u64) {
        let chain = self.0.entry(zone).or_default();
        chain.ids.push_back(id);
        chain.appends += 1;
    }

    /// The device has completed an append to the zone, or failed it.
    pub fn completed(&mut self, zone: ZoneId) {
        if let Some(chain) = self.0.get_mut(&zone) {
            chain.appends -= 1;
            self.forget_empty(zone);
        }
    }

    /// The append is handed to the device again.
    pub fn sent_again(&mut self, zone: ZoneId) {
        self.0.entry(zone).or_default().appends += 1;
    }

    /// Whether the device has appends to the zone in flight, or they are not all written.
    pub fn has_appends(&self, zone: ZoneId) -> bool {
        self.0.contains_key(&zone)
    }

    /// Append `id` is on the device.
    pub fn done(&self, in_flight: &mut BTreeMap<u64, InFlight>, id: u64) {
        if let Some(append) = in_flight.get_mut(&id) {
            append.done = true;
        }
    }

    /// Takes the first append of the zone out of `in_flight` if it is on the device. To be called
    /// until there is none.
    pub fn written(
        &mut self,
        zone: ZoneId,
        in_flight: &mut BTreeMap<u64, InFlight>,
    ) -> Option<InFlight> {
        let chain = self.0.get_mut(&zone)?;
        let first = *chain.ids.front()?;
        if !in_flight.get(&first)?.done {
            return None;
        }
        chain.ids.pop_front();
        self.forget_empty(zone);
        in_flight.remove(&first)
    }

    /// Takes the appends at block `from` of the zone and behind it out of the chain, the last first.
    pub fn cut(
        &mut self,
        zone: ZoneId,
        in_flight: &mut BTreeMap<u64, InFlight>,
        from: u32,
    ) -> Vec<(u64, InFlight)> {
        let mut cut = Vec::new();
        let Some(chain) = self.0.get_mut(&zone) else { return cut };
        while let Some(last) = chain.ids.back().copied()
            && in_flight.get(&last).is_some_and(|append| append.offset >= from)
        {
            chain.ids.pop_back();
            cut.extend(in_flight.remove(&last).map(|append| (last, append)));
        }
        self.forget_empty(zone);
        cut
    }

    fn forget_empty(&mut self, zone: ZoneId) {
        if self.0.get(&zone).is_some_and(|chain| chain.ids.is_empty() && chain.appends == 0) {
            self.0.remove(&zone);
        }
    }
}
