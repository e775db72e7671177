//! Admission: writes that must wait stand in a line.
//!
//! Only the first in line checks the obstacle after each change of state. So one step of reclaim
//! does not wake every waiting client. While the first waits, no other write passes it. Once its
//! obstacle is gone, the others are called one after another, and a new write proceeds at once if
//! nothing blocks it. So the line ends, however busy clients are.
//!
//! A write longer than a group joins the line once for each part. Trims and other operations that
//! free space skip the line.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State, Turn, Waiting};
use crate::memory::dirty_bytes_max;
use crate::options::OpenOptions;

/// The obstacle that a client's write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// More payload is unwritten than memory allows.
    Dirty,
    /// Clients wrote more than half of `unflushed_bytes_max` since the running flush began.
    Unflushed,
    /// The map's nodes that wait for a checkpoint exceed their bound in memory.
    Map,
    /// Clients have no free space left.
    Panic,
    /// Reclaim must do its share first.
    Share,
}

impl State {
    /// Whether clients outrun the running flush. The next flush covers the data accepted meanwhile,
    /// so each flush gets half of the bound.
    fn outruns_flushes(&self, options: &OpenOptions) -> bool {
        self.flush_running && self.log.since_flush > options.unflushed_bytes_max / 2
    }

    /// The obstacle to clients' writes. `None` if the store failed or is closing: the write then
    /// proceeds, to get that error.
    fn obstacle(&self, options: &OpenOptions) -> Option<Obstacle> {
        if self.check_health().is_err() {
            None
        } else if self.log.dirty_bytes > dirty_bytes_max(options) {
            Some(Obstacle::Dirty)
        } else if self.outruns_flushes(options) {
            Some(Obstacle::Unflushed)
        } else if self.outruns_checkpoints(options) {
            Some(Obstacle::Map)
        } else if self.reclaim.gate_closed() {
            Some(if self.reclaim.last_pacing.panic { Obstacle::Panic } else { Obstacle::Share })
        } else {
            None
        }
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Waits until a client's write may be accepted: unwritten data is within its bound, and pacing
    /// permits it.
    pub(crate) async fn admit(&self, blocks: u64) -> Result<(), Error> {
        if self.inner.line.blocked.get() || self.obstacle().is_some() {
            let _waiting = Waiting::new(self);
            let turn = self.inner.line.turn().await;
            self.pass(&turn).await;
        }
        let mut state = self.state();
        state.check_health()?;
        state.reclaim.client_wrote(blocks);
        Ok(())
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.state().obstacle(&self.inner.options)
    }

    /// Waits until no obstacle is left, and wakes the task that can remove it.
    async fn pass(&self, turn: &Turn<'_>) {
        let options = &self.inner.options;
        while let Some(obstacle) = self.obstacle() {
            turn.block();
            self.tell_of(obstacle);
            self.wait_while(|state| state.obstacle(options) == Some(obstacle)).await;
        }
    }

    fn tell_of(&self, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Dirty => {
                // With a bound smaller than a group, the group would otherwise wait for the linger.
                let mut guard = self.state();
                let state = &mut *guard;
                state.log.close_logged_groups(&mut state.space);
                drop(guard);
                self.submit();
            }
            // The step that makes nodes dirty starts the checkpoint; the flush is already running.
            Obstacle::Map | Obstacle::Unflushed => {}
            Obstacle::Panic | Obstacle::Share => {
                self.inner.lead_wanted.notify(1);
                self.call_reclaim();
            }
        }
    }
}
