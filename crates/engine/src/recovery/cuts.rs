//! Where segments ended by a failed append, as the log says.
//!
//! What lay behind was logged again elsewhere. It may have reached the device all the same, in parts,
//! or the device may be unable to read it: neither counts, as records or as damage.

use std::collections::BTreeMap;

use mjolnir_units::ZoneId;

use crate::drive::Walk;
use crate::format::record::Record;
use crate::format::root::Root;
use crate::recovery::survey::{LostGroups, SegmentWalk};

/// See the module.
pub(crate) struct Cuts {
    cuts: BTreeMap<ZoneId, (u64, u32)>,
    /// The highest incarnation that the root knows.
    known: u64,
}

impl Cuts {
    /// Those in the groups that were logged after the root.
    pub fn of(walks: &[SegmentWalk], root: &Root) -> Self {
        let mut cuts: BTreeMap<ZoneId, (u64, u32)> = BTreeMap::new();
        let groups = walks.iter().flat_map(|of| &of.walk.groups);
        let records = groups
            .filter(|group| group.epoch == root.epoch)
            .flat_map(|group| group.records.iter().map(|(_, record)| record));
        for record in records {
            let Record::Cut { zone, incarnation, block } = record else { continue };
            let cut = cuts.entry(*zone).or_insert((*incarnation, *block));
            // A later life of the segment, or an append that failed ahead of another one.
            if *incarnation > cut.0 || (*incarnation == cut.0 && *block < cut.1) {
                *cut = (*incarnation, *block);
            }
        }
        Cuts { cuts, known: root.incarnation }
    }

    /// Takes from a walk what lies behind the segment's end. Returns how many blocks of the segment
    /// are in use, of those `known`.
    pub fn apply(&self, zone: ZoneId, incarnation: u64, walk: &mut Walk, known: u64) -> u64 {
        let Some((_, block)) = self.cuts.get(&zone).filter(|cut| cut.0 == incarnation) else {
            return known;
        };
        walk.groups.retain(|group| group.offset < *block);
        walk.breaks.retain(|hole| hole.offset < u64::from(*block));
        known.min(u64::from(*block).max(1))
    }

    /// Whether a damaged header is one that was never written.
    pub fn explains(&self, lost: &LostGroups) -> bool {
        lost.place.block == 0 && self.is_whole_segment(ZoneId(lost.place.zone))
    }

    /// Whether not even the segment's header was written.
    pub fn is_whole_segment(&self, zone: ZoneId) -> bool {
        let cut = self.cuts.get(&zone);
        cut.is_some_and(|(incarnation, block)| *block <= 1 && *incarnation > self.known)
    }
}
