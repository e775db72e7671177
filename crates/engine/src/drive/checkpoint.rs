//! Asking for a checkpoint, and what the store knows of the last and the next one. The checkpoint's task writes it.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::{Error, ErrorKind};

use crate::drive::engine::Engine;
use crate::format::root::Root;

/// What the checkpoint task keeps between runs.
#[derive(Default)]
pub(crate) struct CheckpointState {
    /// Counts durable checkpoints of the store's life.
    pub number: u64,
    /// The random number of this opening of the store.
    pub opening: u64,
    /// Checkpoints begun and ended since opening; waiters compare them.
    pub begun: u64,
    pub ended: u64,
    pub running: bool,
    /// Bytes that the running one has still to write for the nodes that it has frozen, at most.
    pub pending_bytes: u64,
    /// Bytes that lie in sparse segments of the map, out of which the next ones will move them.
    pub sparse_bytes: u64,
    /// Someone wants one as soon as may be.
    pub wanted: bool,
    /// The root as it was written last, by this opening of the store.
    pub root: Option<Root>,
    /// The root is to be written again, with how much is durable.
    pub promise_wanted: bool,
    /// Whether the task that sees to that knows that more is durable than the root says.
    pub promise_watched: bool,
}

impl CheckpointState {
    /// Of an opening of the store with this random number.
    pub fn new(opening: u64) -> Self {
        CheckpointState { opening, ..CheckpointState::default() }
    }

    /// Whether the next checkpoint can win space by moving what lives in sparse map segments.
    pub fn is_compacting(&self) -> bool {
        self.sparse_bytes > 0
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Takes a checkpoint now and waits until it is durable. Recovery begins from the newest.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        let begun = {
            let mut state = self.state();
            if state.stopping {
                return Err(Error::new(ErrorKind::Closed, "the store is shut down"));
            }
            state.checkpoint.wanted = true;
            state.checkpoint.begun
        };
        self.inner.checkpoint_wanted.notify(1);
        self.wait_while(|state| state.failed.is_none() && state.checkpoint.ended <= begun).await;
        self.state().failed.clone().map_or(Ok(()), Err)
    }
}
