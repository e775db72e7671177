//! Pins: while a read that may use a segment runs, the segment is not reset.

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::engine::Engine;
use crate::drive::state::State;

/// Holds off the reset of a zone while its blocks are being read.
pub(crate) struct Pin<D: Device, R: Runtime> {
    engine: Engine<D, R>,
    zone: ZoneId,
}

impl<D: Device, R: Runtime> Pin<D, R> {
    /// Pins the zone while the caller holds the state, so that nothing comes between lookup and
    /// pin.
    pub fn new(engine: &Engine<D, R>, state: &mut State, zone: ZoneId) -> Self {
        state.space.get_mut(zone).pins += 1;
        Pin { engine: engine.clone(), zone }
    }
}

impl<D: Device, R: Runtime> Drop for Pin<D, R> {
    fn drop(&mut self) {
        let reset_wanted = {
            let mut state = self.engine.state();
            let segment = state.space.get_mut(self.zone);
            segment.pins -= 1;
            segment.pins == 0 && state.space.next_reset_wanted()
        };
        if reset_wanted {
            self.engine.inner.reset_wanted.notify(1);
        }
    }
}
