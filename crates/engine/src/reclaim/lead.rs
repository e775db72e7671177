//! Lead: while reclaim copies nothing, clients go on at its mean pace.

use std::time::Duration;

use mjolnir_device::{Device, Runtime};

use crate::drive::Engine;

/// How often the lead of waiting clients is raised.
const TICK: Duration = Duration::from_millis(4);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that lets clients run ahead of reclaim bit by bit, where they wait and it copies
    /// nothing.
    pub(crate) async fn lead_task(self) {
        loop {
            let listener = self.inner.lead_wanted.listen();
            let (ends, wanted) = {
                let state = self.state();
                let wanted = state.clients_waiting > 0
                    && state.reclaim.gate_closed()
                    && !state.reclaim.last_pacing.panic
                    && state.reclaim.rhythm.lead_grows(self.runtime().now());
                (state.failed.is_some() || state.stopping, wanted)
            };
            if ends {
                return;
            }
            if !wanted {
                listener.await;
                continue;
            }
            drop(listener);
            self.runtime().sleep(TICK).await;
            self.state().reclaim.follow_rhythm(self.runtime().now());
            self.notify();
        }
    }
}
