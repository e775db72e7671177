//! Recovery of a store whose medium has shrunk: the contents of the missing part.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::format::manifest::Manifest;
use crate::space::{ORDER_SLACK, SegmentState};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Adds the missing segments that may have been opened since the checkpoint, or filled further.
    /// Called once the segments opened since are known.
    pub(crate) fn note_missing(&self, manifest: &Manifest) {
        let Some(from) = self.device().abilities().missing_from() else { return };
        if manifest.closed {
            return;
        }
        let mut guard = self.state();
        let state = &mut *guard;
        let zone_blocks = state.info.zone_blocks;
        let mut unsure: BTreeSet<ZoneId> = manifest.scan.iter().copied().collect();
        // Up to `ORDER_SLACK` free segments may precede an opened one.
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
