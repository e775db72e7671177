//! The groups and records that were logged after the checkpoint, in order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mjolnir_units::ZoneId;

use crate::format::group::GroupHeader;
use crate::format::record::Record;
use crate::format::root::Root;
use crate::recovery::promised::Promised;
use crate::recovery::replay::Logged;
use crate::recovery::survey::Survey;

/// See the module.
pub(crate) struct FoundLog<'a> {
    /// Groups of the current epoch with records after the checkpoint, by their last record.
    groups: Vec<(ZoneId, &'a GroupHeader)>,
    /// The number of first groups that are known to have arrived whole.
    sure: usize,
    /// The groups' records, by number. Of several copies of a record, the last logged comes first.
    pub records: Vec<Logged<'a>>,
    /// The highest number of any record.
    pub highest: u64,
}

impl<'a> FoundLog<'a> {
    /// Selects the groups of the survey that belong to the current log.
    pub fn of(survey: &'a Survey, root: &Root, promised: &Promised) -> Self {
        let newest = |group: &GroupHeader| group.records.iter().map(|r| r.0).max().unwrap_or(0);
        let counts =
            |group: &GroupHeader| newest(group) > root.sequence && group.epoch == root.epoch;
        let highest = survey.groups().map(|(_, group)| newest(group)).fold(root.sequence, u64::max);
        let mut groups: Vec<(ZoneId, &GroupHeader)> =
            survey.groups().filter(|(_, group)| counts(group)).collect();
        groups.sort_by_cached_key(|(_, group)| newest(group));
        let sure = groups.partition_point(|(_, group)| newest(group) <= promised.told);
        let records = groups.iter().map(|(_, group)| group.records.len()).sum();
        let mut log = FoundLog { groups, sure, records: Vec::with_capacity(records), highest };
        log.list_records(root);
        log
    }

    fn list_records(&mut self, root: &Root) {
        for (index, (zone, group)) in self.groups.iter().enumerate() {
            let unsure = index.checked_sub(self.sure);
            let mut payload = zone.start(root.zone_blocks).plus(u64::from(group.offset) + 1);
            for (sequence, record) in &group.records {
                if *sequence > root.sequence {
                    let (sequence, incarnation) = (*sequence, group.incarnation);
                    self.records.push(Logged { sequence, incarnation, record, payload, unsure });
                }
                payload = payload.plus(record.payload_blocks());
            }
        }
        self.records.sort_by_key(|of| (of.sequence, Reverse(of.incarnation)));
    }

    /// The groups that are not known to have arrived whole.
    pub fn unsure(&self) -> &[(ZoneId, &'a GroupHeader)] {
        &self.groups[self.sure..]
    }

    /// The records from this number on.
    pub fn known_from(&self, first: u64) -> BTreeMap<u64, Record> {
        let left = self.records.iter().filter(|of| of.sequence >= first);
        left.map(|of| (of.sequence, of.record.clone())).collect()
    }
}
