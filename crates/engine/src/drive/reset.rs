//! The task that resets free segments, so that some are always ready to be opened.

use mjolnir_device::{Device, DeviceError, ErrorKind, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::engine::Engine;
use crate::drive::outage::Lack;

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
                let zone = state
                    .space
                    .next_to_reset(|zone| log.zone_busy(zone), |zone| log.has_refused(zone));
                zone.inspect(|zone| state.checksums.remove(*zone))
            };
            let Some(zone) = zone else {
                listener.await;
                continue;
            };
            match self.device().reset(zone).await {
                Ok(()) => {
                    let mut state = self.state();
                    state.counters.zone_resets += 1;
                    state.space.push_ready(zone);
                }
                Err(error) if error.kind == ErrorKind::Gone && self.state().is_serving => {
                    self.state().space.put_back_unreset(zone);
                    self.begin_outage(Lack::Everything, &error);
                    if self.outlast(false).await.is_err() {
                        return;
                    }
                }
                Err(error) => self.pass_over(zone, &error),
            }
            self.notify();
        }
    }

    /// A free segment cannot be reset: the next one takes its place.
    fn pass_over(&self, zone: ZoneId, error: &DeviceError) {
        {
            let mut state = self.state();
            state.note_write_error(error);
            state.space.pass_over(zone, &error.to_string());
            // Its trial is due, or a root that lists other segments.
            state.checkpoint.wanted |= !state.space.may_pass_over();
        }
        self.inner.bad_noticed.notify(1);
        self.inner.checkpoint_wanted.notify(1);
    }
}
