//! Flushes make every record up to a number durable. One device flush runs at a time and serves all
//! waiters.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::engine::Engine;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Makes every record up to `sequence` durable.
    pub(crate) async fn flush_to(&self, sequence: u64) -> Result<(), Error> {
        loop {
            let listener = self.inner.changed.listen();
            {
                let state = self.state();
                if state.log.durable >= sequence {
                    return Ok(());
                }
                if let Some(error) = state.failed.as_ref().or(state.refusal()) {
                    return Err(error.clone());
                }
            }
            self.begin_flush();
            listener.await;
        }
    }

    /// Starts a device flush, unless one is running. A task runs the flush: a waiter may leave
    /// before it ends, and the records that others count on are still covered.
    pub(crate) fn begin_flush(&self) {
        if std::mem::replace(&mut self.state().flush_running, true) {
            return;
        }
        let engine = self.clone();
        self.spawn(async move {
            engine.flush_all().await;
            engine.state().flush_running = false;
            engine.submit(); // New records may make the next flush due already.
        });
    }

    /// Makes all present records durable. If that fails, the store fails.
    async fn flush_all(&self) {
        let target = {
            let mut guard = self.state();
            let state = &mut *guard;
            state.log.since_flush = 0;
            state.log.close_logged_groups(&mut state.space);
            state.log.sequence
        };
        self.submit();
        self.wait_while(|state| state.log.waits_for(target) && state.failed.is_none()).await;
        if self.state().failed.is_some() {
            return;
        }
        if let Err(error) = self.flush_device().await {
            return self.fail(error);
        }
        let mut state = self.state();
        if state.failed.is_none() {
            state.log.durable = state.log.durable.max(target);
        }
        if !std::mem::replace(&mut state.checkpoint.promise_watched, true) {
            self.inner.promise_wanted.notify(1);
        }
    }
}
