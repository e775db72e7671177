//! Recovery of a store whose medium has become shorter: what the missing part held.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::format::manifest::Manifest;
use crate::space::{ORDER_SLACK, SegmentState};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Notes, once it is known which segments were opened since the checkpoint, which of those that are missing
    /// may have been opened, or filled further, too.
    pub(crate) fn note_missing(&self, manifest: &Manifest) {
        let Some(from) = self.device().abilities().missing_from() else { return };
        if manifest.closed {
            return;
        }
        let mut guard = self.state();
        let state = &mut *guard;
        let zone_blocks = state.info.zone_blocks;
        let mut unsure: BTreeSet<ZoneId> = manifest.scan.iter().copied().collect();
        // As many as this may be free ahead of one that was opened.
        let mut free_ahead = 0;
        for zone in manifest.order(state.info.zones) {
            let is_there = zone.start(zone_blocks) < from;
            match state.space.get(zone).state {
                SegmentState::Free if is_there => free_ahead += 1,
                SegmentState::Free if free_ahead < ORDER_SLACK => drop(unsure.insert(zone)),
                SegmentState::Free => {}
                _ => {
                    free_ahead = 0;
                    unsure.insert(zone);
                }
            }
        }
        state.unsure = unsure;
    }
}
