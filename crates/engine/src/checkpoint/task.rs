//! The task that takes checkpoints when they are due or requested.

use mjolnir_device::{Device, Runtime};

use crate::drive::{Engine, State};
use crate::memory::dirty_nodes_max;
use crate::options::OpenOptions;
use crate::space::SegmentState;

/// Without urgency, a checkpoint should free at least 16 bytes for each byte that it writes.
const WON_FOR_WRITTEN: u64 = 16;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that takes checkpoints when they are due.
    pub(crate) async fn checkpoint_task(self) {
        loop {
            let listener = self.inner.checkpoint_wanted.listen();
            let (ends, due, promise) = {
                let mut state = self.state();
                let due = state.checkpoint_due(&self.inner.options);
                let ends = state.failed.is_some() || (state.stopping && !due);
                (ends, due, state.checkpoint.promise_wanted)
            };
            if ends {
                return;
            }
            let written = match (due, promise) {
                (true, _) => self.write_checkpoint().await,
                (false, true) => self.write_promise().await,
                (false, false) => {
                    listener.await;
                    continue;
                }
            };
            if let Err(error) = written {
                self.fail(error);
            }
        }
    }
}

impl State {
    /// Whether a checkpoint is due: it was requested, the log is long, much of the map is dirty, or
    /// free segments are few and enough segments are retiring.
    fn checkpoint_due(&mut self, options: &OpenOptions) -> bool {
        self.update_reserve();
        let frees = self.space.count(SegmentState::Retiring);
        let few = self.space.free_count() < 2 * self.space.reserve() + frees;
        // A checkpoint's writes are the price of the space that it frees. If clients' pace leaves
        // time, it waits until enough segments retire to make the price small.
        let room = self.space.free_count().saturating_sub(self.space.reserve());
        let hurried = room < 2 + self.space.checkpoint_least();
        let cheap =
            frees as u64 * self.space.payload_bytes() >= WON_FOR_WRITTEN * self.checkpoint_bytes();
        let worth = frees > 0 && (hurried || cheap);
        // A checkpoint reserve above an eighth of the store makes a checkpoint due.
        let dirty = self.space.checkpoint_reserve() > 2 + self.space.segments.len() / 8;
        // Dirty nodes cannot be evicted before they are written. This also counts nodes that
        // reclaim dirtied, since reclaim logs no numbered records.
        let heavy = self.map.unwritten_bytes() as u64 > dirty_nodes_max(options);
        let idle = self.log.sequence == self.log.durable && self.log.since_checkpoint == 0;
        self.checkpoint.wanted
            || heavy
            || self.is_log_long(options)
            || (dirty && !idle)
            || (few && worth)
            || (self.is_squeezed() && !idle)
    }
}
