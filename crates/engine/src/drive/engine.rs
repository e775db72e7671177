//! The engine's handle and shared state, and the small operations that the rest is built on.

use std::cell::RefCell;
use std::rc::Rc;

use event_listener::Event;
use mjolnir_device::{Buffers, Device, Runtime};
use mjolnir_store::Error;
use mjolnir_units::Instant;

use crate::drive::line::Line;
use crate::drive::state::State;
use crate::options::OpenOptions;

/// An open store. Cloning it gives another handle to the same store.
pub struct Engine<D: Device, R: Runtime> {
    pub(crate) inner: Rc<Inner<D, R>>,
}

impl<D: Device, R: Runtime> Clone for Engine<D, R> {
    fn clone(&self) -> Self {
        Engine { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<D, R> {
    pub device: D,
    pub runtime: R,
    pub options: OpenOptions,
    /// No borrow of the state crosses an `.await`.
    pub state: RefCell<State>,
    /// Clients whose writes wait to be accepted.
    pub line: Line,
    /// Space, the log or the store's health changed: every waiter checks its condition again.
    pub changed: Event,
    /// There is work for the reclaim task.
    pub reclaim_wanted: Event,
    /// There is work for the checkpoint task.
    pub checkpoint_wanted: Event,
    /// Clients wait for reclaim, or reclaim has copied something.
    pub lead_wanted: Event,
    /// Few segments are ready to be opened: the reset task prepares some.
    pub reset_wanted: Event,
    /// There may be free segments to return to the host.
    pub release_wanted: Event,
    /// A bad segment may have to be tried.
    pub bad_noticed: Event,
    /// The device refused a group: it must be logged again elsewhere.
    pub refused: Event,
    /// A group was begun: the linger task checks it.
    pub group_begun: Event,
    /// More is durable than the root says, or the engine stops.
    pub promise_wanted: Event,
    /// There are more than a few buffers: the buffers task checks them.
    pub buffers_grown: Event,
    pub opened_at: Instant,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    pub(crate) fn state(&self) -> std::cell::RefMut<'_, State> {
        self.inner.state.borrow_mut()
    }

    /// Write buffers for clients, counted in the budget. Payload read into them needs no copy.
    pub fn client_buffers(&self) -> Buffers {
        self.state().client_buffers.clone()
    }

    /// Input buffers for clients' data until it is decoded, also counted in the budget.
    pub fn client_inputs(&self) -> Buffers {
        self.state().client_inputs.clone()
    }

    pub(crate) fn runtime(&self) -> &R {
        &self.inner.runtime
    }

    pub(crate) fn device(&self) -> &D {
        &self.inner.device
    }

    pub(crate) fn notify(&self) {
        self.inner.changed.notify(usize::MAX);
    }

    /// Wakes reclaim to check for work, whether it rests or waits within a cycle.
    pub(crate) fn call_reclaim(&self) {
        self.inner.reclaim_wanted.notify(1);
        self.notify();
    }

    /// Fails the store: it takes no more changes. The first reason is kept.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state();
        if state.failed.is_none() {
            state.failed = Some(Error::new(
                error.kind,
                format!("the store takes no more changes, so that none is lost: {}", error.message),
            ));
        }
        drop(state);
        self.call_reclaim();
        self.inner.checkpoint_wanted.notify(usize::MAX);
        self.inner.lead_wanted.notify(usize::MAX);
        self.inner.reset_wanted.notify(usize::MAX);
        self.inner.release_wanted.notify(usize::MAX);
        self.inner.refused.notify(usize::MAX);
        self.inner.bad_noticed.notify(usize::MAX);
        self.inner.group_begun.notify(usize::MAX);
        self.inner.promise_wanted.notify(usize::MAX);
    }

    /// Starts a task that [`close`](Self::close) waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.state().tasks += 1;
        let engine = self.clone();
        self.runtime().spawn(async move {
            task.await;
            engine.state().tasks -= 1;
            engine.notify();
        });
    }
}
