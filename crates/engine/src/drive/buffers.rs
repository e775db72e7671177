//! Payload buffers, and the task that frees idle ones.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{AlignedBuf, Device, Runtime};

use crate::drive::engine::Engine;

/// How long idle buffers are kept. A buffer needed again sooner is not allocated anew from the
/// system, which would have to clear it each time.
const BUFFERS_REST: Duration = Duration::from_secs(1);

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that frees buffers idle for a while. Nothing wakes it while there are few.
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

    /// Allocates a read buffer.
    pub(crate) fn buffer(&self, bytes: usize) -> AlignedBuf {
        let buffer = self.state().buffers.take(bytes);
        self.watch_buffers();
        buffer
    }

    /// Wakes the buffers task if there are more than a few buffers. Called after every step, and
    /// wherever code takes buffers outside a step.
    pub(crate) fn watch_buffers(&self) {
        let mut state = self.state();
        if !state.buffers_watched && state.buffers_can_rest() {
            state.buffers_watched = true;
            drop(state);
            self.inner.buffers_grown.notify(1);
        }
    }
}
