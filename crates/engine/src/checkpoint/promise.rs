//! Records the durable sequence number in the root, once the log is quiet.
//!
//! Each group header holds the number up to which all records were durable when it was written. So
//! in a busy log later groups prove which records a crash cannot have taken, except those flushed
//! last: no later group covers these, and damage to them would look like a write torn by a power
//! cut. So after a while without a new record, the unchanged root is rewritten with the number of
//! the last durable record. Recovery then treats missing or unreadable records up to that number as
//! damage.

use std::pin::pin;
use std::time::Duration;

use event_listener::EventListener;
use futures_util::future::{Either, select};
use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State};

/// The least time between two such writes: a load with pauses pays for one a second.
const INTERVAL: Duration = Duration::from_secs(1);

impl State {
    /// Whether more is durable than the root says.
    fn owes_promise(&self) -> bool {
        let told = self.checkpoint.root.as_ref().map_or(u64::MAX, |root| root.durable);
        self.failed.is_none() && self.log.durable > told
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that requests this root write. It sleeps while the log is busy, and nothing wakes
    /// it while the root holds the newest durable number.
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

    /// Sleeps, but ends early if the engine stops.
    async fn pause(&self, time: Duration, mut woken: EventListener) {
        let mut sleep = pin!(self.runtime().sleep(time));
        while let Either::Right(_) = select(&mut sleep, woken).await {
            woken = self.inner.promise_wanted.listen();
            if self.state().stopping {
                return;
            }
        }
    }

    /// Rewrites the root with the present durable number. The checkpoint task calls this: of two
    /// roots the one written last counts.
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
            self.write_root(&root).await?;
            let mut state = self.state();
            state.counters.promises += 1;
            state.checkpoint.root = Some(root);
        }
        self.notify();
        Ok(())
    }
}
