//! Requests for a checkpoint, and the state of the last and the next one. The checkpoint task
//! writes it.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_store::{Error, ErrorKind};

use crate::drive::engine::Engine;
use crate::format::root::Root;

/// State that the checkpoint task keeps between runs.
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
    /// Most bytes that the running checkpoint has still to write for the nodes that it froze.
    pub pending_bytes: u64,
    /// Nodes frozen since the last durable root, by the checkpoint under way.
    pub frozen: Vec<NodeId>,
    /// Live bytes in sparse segments of the map, which the next checkpoints will move.
    pub sparse_bytes: u64,
    /// A checkpoint is wanted as soon as possible.
    pub wanted: bool,
    /// The root that this opening of the store wrote last.
    pub root: Option<Root>,
    /// The root must be rewritten with the newest durable sequence number.
    pub promise_wanted: bool,
    /// Whether the promise task knows that more is durable than the root says.
    pub promise_watched: bool,
}

impl CheckpointState {
    /// State of an opening of the store, with this random number.
    pub fn new(opening: u64) -> Self {
        CheckpointState { opening, ..CheckpointState::default() }
    }

    /// Whether the next checkpoint can free space by moving live nodes out of sparse map segments.
    pub fn is_compacting(&self) -> bool {
        self.sparse_bytes > 0
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Takes a checkpoint and waits until it is durable. Recovery starts from the newest one.
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
