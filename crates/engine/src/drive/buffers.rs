//! Memory for payloads, and the task that gives it back while nobody needs it.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{AlignedBuf, Device, Runtime};

use crate::drive::engine::Engine;

/// How long buffers are kept that nobody uses: what is needed again sooner is not asked of the system,
/// which would have to clear it, again and again.
const BUFFERS_REST: Duration = Duration::from_secs(1);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that lets go of buffers that nobody has used for a while. Nothing wakes it while there are
    /// few.
    pub(crate) async fn buffers_task(self) {
        loop {
            let listener = self.inner.buffers_grown.listen();
            let can_rest = {
                let mut state = self.state();
                if state.stopping {
                    return;
                }
                let can_rest = state.buffers_can_rest();
                state.buffers_watched = can_rest;
                can_rest
            };
            if !can_rest {
                listener.await;
                continue;
            }
            select(listener, pin!(self.runtime().sleep(BUFFERS_REST))).await;
            let state = self.state();
            state.buffers.rest();
            state.client_buffers.rest();
            state.client_inputs.rest();
        }
    }

    /// A buffer to read into.
    pub(crate) fn buffer(&self, bytes: usize) -> AlignedBuf {
        let buffer = self.state().buffers.take(bytes);
        self.watch_buffers();
        buffer
    }

    /// Has buffers looked after, if there are more than few. Called after every step, and wherever some
    /// are taken without one.
    pub(crate) fn watch_buffers(&self) {
        let mut state = self.state();
        if !state.buffers_watched && state.buffers_can_rest() {
            state.buffers_watched = true;
            drop(state);
            self.inner.buffers_grown.notify(1);
        }
    }
}
