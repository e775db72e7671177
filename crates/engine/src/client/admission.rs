//! Admission: clients whose writes must wait stand in a line.
//!
//! Only the first of the line looks whether it may go, each time that something changes; so what
//! reclaim does for one client does not wake all the others. While it waits, nobody passes those in
//! the line. Once it need not wait any more, the others are called one after another, and whoever
//! comes then goes at once as long as nothing is in the way: so the line ends, however busy clients are.
//!
//! A write that is longer than a group stands in line for each part of it. Trims and what else makes
//! room stand in none.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State, Turn, Waiting};
use crate::memory::dirty_bytes_max;
use crate::options::OpenOptions;

/// What a client's write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Too much is unwritten.
    Dirty,
    /// Too much was accepted since the flush began that is under way.
    Unflushed,
    /// Checkpoints have more of the map to write than memory has room for.
    Map,
    /// No free space is left for clients.
    Panic,
    /// Reclaim has its share to do first.
    Share,
}

impl State {
    /// Whether the device's flush, which is under way, lags behind clients. Once it ends the next one
    /// covers what was accepted meanwhile: so half of the bound may be, each time.
    fn outruns_flushes(&self, options: &OpenOptions) -> bool {
        self.flush_running && self.log.since_flush > options.unflushed_bytes_max / 2
    }

    /// What keeps clients from writing; nothing if the store takes no more changes, which they shall
    /// be told.
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
    /// Waits until a client's write may be accepted: within the bound on unwritten data, and as
    /// pacing allows.
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

    /// Waits while something is in the way, and has those know who can do something about it.
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
                // What is bounded to less than a group would else wait for the group to linger.
                let mut guard = self.state();
                let state = &mut *guard;
                state.log.close_logged_groups(&mut state.space);
                drop(guard);
                self.submit();
            }
            // Checkpoints are begun in time by whoever makes the nodes dirty; a flush runs.
            Obstacle::Map | Obstacle::Unflushed => {}
            Obstacle::Panic | Obstacle::Share => {
                self.inner.lead_wanted.notify(1);
                self.call_reclaim();
            }
        }
    }
}
