//! The task that resets free segments, so that some are always ready to be opened.

use mjolnir_device::{Device, Runtime};

use crate::drive::engine::Engine;

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
            let reset = self.device().reset(zone).await;
            let mut state = self.state();
            if let Err(error) = reset {
                state.note_write_error(&error);
                state.space.pass_over(zone, &error.to_string());
                // Its trial is due, or a root that lists other segments.
                state.checkpoint.wanted |= !state.space.may_pass_over();
                drop(state);
                self.inner.bad_noticed.notify(1);
                self.inner.checkpoint_wanted.notify(1);
                self.notify();
                continue;
            }
            state.counters.zone_resets += 1;
            state.space.push_ready(zone);
            drop(state);
            self.notify();
        }
    }
}
