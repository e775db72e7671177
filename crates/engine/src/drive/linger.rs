//! The task that sends a group after it has waited long enough for more records.

use std::pin::pin;

use event_listener::EventListener;
use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};

use crate::drive::engine::Engine;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Sends groups that no flush asked for, after a short wait for more records (the linger). A
    /// group begun during one linger waits for up to a second one.
    pub(crate) async fn linger_task(self) {
        loop {
            let listener = self.inner.group_begun.listen();
            let newest = {
                let state = self.state();
                if state.stopping || state.failed.is_some() {
                    return;
                }
                state.log.is_building().then(|| state.log.last_group())
            };
            let Some(newest) = newest else {
                listener.await;
                continue;
            };
            self.linger(listener).await;
            {
                let mut guard = self.state();
                let state = &mut *guard;
                if state.failed.is_none() {
                    state.log.close_logged_groups_to(&mut state.space, newest);
                }
            }
            self.submit();
        }
    }

    /// Sleeps for the linger, or until the engine stops.
    async fn linger(&self, mut woken: EventListener) {
        let mut sleep = pin!(self.runtime().sleep(self.inner.options.linger));
        while let Either::Right(_) = select(&mut sleep, woken).await {
            woken = self.inner.group_begun.listen();
            if self.state().stopping {
                return;
            }
        }
    }
}
