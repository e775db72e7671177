//! The task that resets free segments, so that some are always ready to be opened.

use mjolnir_device::{Device, Runtime};

use crate::drive::engine::Engine;
use crate::fault;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Keeps a few segments reset and ready to be opened.
    pub(crate) async fn reset_task(self) {
        loop {
            let listener = self.inner.reset_wanted.listen();
            let zone = {
                let mut guard = self.state();
                let state = &mut *guard;
                if state.stopping || state.failed.is_some() {
                    return;
                }
                let log = &state.log;
                let zone = state.space.next_to_reset(|zone| log.zone_busy(zone));
                zone.inspect(|zone| state.checksums.remove(*zone))
            };
            let Some(zone) = zone else {
                listener.await;
                continue;
            };
            if let Err(error) = self.device().reset(zone).await {
                self.fail(fault::device(&format!("resetting segment {}", zone.0), error));
                return;
            }
            let mut state = self.state();
            state.counters.zone_resets += 1;
            state.space.push_ready(zone);
            drop(state);
            self.notify();
        }
    }
}
