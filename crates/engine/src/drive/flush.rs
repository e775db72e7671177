//! Flushes: until every record up to a number is durable. One runs at a time, for all who want one.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::engine::Engine;
use crate::fault;

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
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
            }
            self.begin_flush();
            listener.await;
        }
    }

    /// Begins to flush the device, unless that is under way. It is a task's work: whoever wants a flush
    /// may leave before it ends, and what is counted on it to cover is covered all the same.
    pub(crate) fn begin_flush(&self) {
        if std::mem::replace(&mut self.state().flush_running, true) {
            return;
        }
        let engine = self.clone();
        self.spawn(async move {
            engine.flush_all().await;
            engine.state().flush_running = false;
            engine.submit(); // So much may have come meanwhile that the next flush is due.
        });
    }

    /// Makes all records that there are now durable. If that fails, so does the store.
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
        if let Err(error) = self.device().flush().await {
            return self.fail(fault::device("flushing the device", error));
        }
        let mut state = self.state();
        state.counters.device_flushes += 1;
        if state.failed.is_none() {
            state.log.durable = state.log.durable.max(target);
        }
        if !std::mem::replace(&mut state.checkpoint.promise_watched, true) {
            self.inner.promise_wanted.notify(1);
        }
    }
}
