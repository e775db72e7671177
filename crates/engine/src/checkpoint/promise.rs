//! How far flushes have promised: kept in the root, once the log is quiet.
//!
//! Each group header says up to which record all were durable when it was written. So a busy log tells by
//! itself what a crash may not have taken, but for what was flushed last: no later group speaks for that, and
//! damage to it would pass for a write that a power cut tore. So once no record was logged for a while, the
//! root is written again, as it is, with the number of the last durable record. Recovery then takes
//! what is missing or damaged up to that number for what it is.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use event_listener::EventListener;
use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State};
use crate::fault;

/// How long after one such write the next one comes, at least: a load with pauses pays for one a second.
const INTERVAL: Duration = Duration::from_secs(1);

impl State {
    /// Whether more is durable than the root says.
    fn owes_promise(&self) -> bool {
        let told = self.checkpoint.root.as_ref().map_or(u64::MAX, |root| root.durable);
        self.failed.is_none() && self.log.durable > told
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that has the root written. It sleeps while the log is busy, and nothing wakes it while the
    /// root has told all.
    pub(crate) async fn promise_task(self) {
        loop {
            let listener = self.inner.promise_wanted.listen();
            let (owes, seen) = {
                let mut state = self.state();
                if state.stopping || state.failed.is_some() {
                    return;
                }
                let owes = state.owes_promise();
                state.checkpoint.promise_watched = owes;
                (owes, state.log.sequence)
            };
            if !owes {
                listener.await;
                continue;
            }
            self.pause(self.inner.options.promise_after, listener).await;
            if self.state().log.sequence != seen {
                continue;
            }
            self.state().checkpoint.promise_wanted = true;
            self.inner.checkpoint_wanted.notify(1);
            self.wait_while(|state| {
                state.checkpoint.promise_wanted && state.failed.is_none() && !state.stopping
            })
            .await;
            let listener = self.inner.promise_wanted.listen();
            if !self.state().stopping {
                self.pause(INTERVAL, listener).await;
            }
        }
    }

    /// Sleeps, or ends early because the engine stops.
    async fn pause(&self, time: Duration, mut woken: EventListener) {
        let mut sleep = pin!(self.runtime().sleep(time));
        while let Either::Right(_) = select(&mut sleep, woken).await {
            woken = self.inner.promise_wanted.listen();
            if self.state().stopping {
                return;
            }
        }
    }

    /// Writes the root again, with how much is durable now. Called by the task that writes checkpoints: of
    /// two roots the one written last counts.
    pub(crate) async fn write_promise(&self) -> Result<(), Error> {
        let root = {
            let mut state = self.state();
            state.checkpoint.promise_wanted = false;
            let durable = state.log.durable;
            match &state.checkpoint.root {
                Some(root) if root.durable < durable => {
                    let mut root = root.clone();
                    root.durable = durable;
                    Some(root)
                }
                _ => None,
            }
        };
        if let Some(root) = root {
            self.device()
                .write_root(Bytes::from(root.encode()))
                .await
                .map_err(|error| fault::device("writing the store's root", error))?;
            let mut state = self.state();
            state.counters.promises += 1;
            state.checkpoint.root = Some(root);
        }
        self.notify();
        Ok(())
    }
}
