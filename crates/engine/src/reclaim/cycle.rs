//! One cycle: a walk of the map, then the candidates that were chosen before it are emptied, batch by batch.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::Error;

use crate::drive::{Engine, State};
use crate::reclaim::batch::Batch;
use crate::reclaim::mark::live::Live;

/// What a cycle won.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::reclaim) struct Won {
    /// Segments given up.
    pub retired: usize,
    /// Whether candidates were tried for which there was no room.
    pub cramped: bool,
    /// Candidates selected for the next cycle.
    pub selected: usize,
    /// Set if nobody writes any more, or the callers have left: since this sequence number.
    pub rests: Option<u64>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Mark, then relocate → repoint → sweep for each batch, then select. The first `calls` calls for reclaim by
    /// name came before it began.
    pub(in crate::reclaim) async fn cycle(&self, calls: u64) -> Result<Won, Error> {
        self.select_all();
        let mut live = self.mark_whole().await?;
        let mut won = Won { retired: self.sweep_empty(&mut live).await?, ..Won::default() };
        while !won.cramped && self.state().has_candidates() {
            // Repointing dirties leaves, as many bytes as are moved or more.
            if self.state().is_squeezed() {
                self.checkpoint_within_task().await?;
            }
            let batch = self.state().next_batch(&self.inner.options);
            let emptied = self.empty(batch, &mut live, &mut won).await;
            self.leave_room_to_clients().await;
            self.state().end_batch();
            emptied?;
            // Not before the first batch: who deletes all the time must not keep reclaim from its work.
            if won.rests.is_some() || self.state().should_choose_anew() {
                break;
            }
        }
        self.state().end_candidacies(&mut won);
        if won.rests.is_none() {
            won.selected = self.select(calls);
        }
        Ok(won)
    }

    /// A mark that no failed append falls into: what is logged again for it is repointed, and a leaf
    /// that was visited before would be counted at its old place.
    async fn mark_whole(&self) -> Result<Live, Error> {
        loop {
            self.wait_while(|state| state.failed.is_none() && state.log.is_any_record_refused())
                .await;
            let breaks = self.state().log.breaks;
            let live = self.mark().await?;
            if self.state().log.breaks == breaks {
                return Ok(live);
            }
            self.state().reclaim.released.abort_mark();
        }
    }

    /// Empties a batch. Each victim is given up or no candidate any more afterwards, unless there was no room,
    /// reclaim is to rest or the store is closing. Fails only if the store has.
    async fn empty(&self, mut batch: Batch, live: &mut Live, won: &mut Won) -> Result<(), Error> {
        self.find_live(&mut batch, live).await?;
        let Some(mut relocated) = self.relocate(batch).await? else { return Ok(()) };
        (won.cramped, won.rests) = (relocated.cramped, relocated.rests);
        let moves = relocated.take_moves();
        if self.repoint(&mut relocated.batch, &moves).await? {
            won.retired += self.sweep_victims(&relocated.emptied()).await?;
        } else {
            won.cramped = true;
        }
        Ok(())
    }

    /// A checkpoint on behalf of reclaim, so that what retires becomes free.
    pub(in crate::reclaim) async fn checkpoint_within_task(&self) -> Result<(), Error> {
        if self.state().closing { Ok(()) } else { self.checkpoint().await }
    }
}

impl State {
    /// Whether there is something to relocate, and time for it.
    fn has_candidates(&self) -> bool {
        !self.reclaim.index.is_empty() && !self.closing && !self.reclaim.asked.is_called_off()
    }

    /// The walk and the batches of a cycle are over.
    fn end_candidacies(&mut self, won: &mut Won) {
        if self.reclaim.asked.is_called_off() {
            won.rests = Some(self.log.sequence);
        }
        self.forget_candidates();
        self.reclaim.counters.cycles += 1;
    }

    /// Ends all candidacies: nothing is being moved any more.
    pub(in crate::reclaim) fn forget_candidates(&mut self) {
        self.reclaim.index.clear();
        self.reclaim.mark_bytes = 0;
        self.reclaim.asked.candidates_are_planned(false);
        self.map.track_leaves(false);
        self.map.watch_displaced(0, self.space.zone_blocks, &[]);
    }
}
