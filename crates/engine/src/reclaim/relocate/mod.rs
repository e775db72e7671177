//! Relocate: the live blocks of a batch's victims are copied forward, one victim after the other.
//!
//! While one victim is copied, the next one is made ready: its headers are read meanwhile, and its first round
//! once the whole victim before it is in memory or on its way. Else the device would wait in between.

mod append;
mod copy;
mod live;
mod live_runs;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};

use futures_util::future::{MaybeDone, OptionFuture, maybe_done};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{Relocations, RelocationsBuilder};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::ZoneId;

use crate::drive::{Engine, State};
use crate::reclaim::batch::Batch;
use crate::reclaim::relocate::copy::{AllRead, Copied};
use crate::reclaim::victim::Victim;

/// What was copied of a batch.
pub(in crate::reclaim) struct Relocated {
    /// The victims that were copied.
    pub batch: Batch,
    /// Where their live blocks went.
    moves: RelocationsBuilder,
    /// Groups that hold these.
    groups: BTreeSet<u64>,
    /// The victim of which only a part was copied: it stays as it is, with fewer live blocks in it.
    part: Option<ZoneId>,
    /// Whether there was no room for a victim: there would be none for others.
    pub cramped: bool,
    /// It was broken off because nobody writes any more: since this sequence number.
    pub rests: Option<u64>,
}

impl Relocated {
    /// Of a batch of which nothing has been copied yet.
    fn nothing_of(batch: &Batch) -> Self {
        Relocated {
            batch: Batch { victims: Vec::new(), twins: batch.twins },
            moves: Relocations::builder(),
            groups: BTreeSet::new(),
            part: None,
            cramped: false,
            rests: None,
        }
    }

    fn add(&mut self, zone: ZoneId, moved: RelocationsBuilder) {
        self.moves.append(moved);
        self.batch.victims.push(Victim::new(zone));
    }

    /// The moves, to repoint by.
    pub fn take_moves(&mut self) -> Relocations {
        std::mem::replace(&mut self.moves, Relocations::builder()).build()
    }

    /// The victims that are empty once they are repointed.
    pub fn emptied(mut self) -> Batch {
        self.batch.victims.retain(|victim| Some(victim.zone) != self.part);
        self.batch
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Copies the victims of a batch. Spares a victim that cannot be copied. Stops before all are copied where
    /// there is no room for one, where clients took more room than was reckoned with, or where reclaim is to
    /// rest. Returns nothing if the store is closing. Fails only if the store has.
    pub(in crate::reclaim) async fn relocate(
        &self,
        batch: Batch,
    ) -> Result<Option<Relocated>, Error> {
        let breaks = self.state().log.breaks;
        let mut relocated = Relocated::nothing_of(&batch);
        let mut victims = batch.victims.into_iter();
        let nothing_before = AllRead::noted();
        let first = victims.next().map(|victim| self.get_ready(victim, &nothing_before));
        let mut next = OptionFuture::from(first).await;
        while let Some((zone, ready)) = next.take() {
            // Clients took more meanwhile than was reckoned with: what is copied is given up first.
            if !relocated.batch.victims.is_empty() && self.state().is_at_reserve() {
                break;
            }
            let all_read = AllRead::default();
            let following = victims.next().map(|victim| self.get_ready(victim, &all_read));
            let mut following = pin!(maybe_done(OptionFuture::from(following)));
            let groups = &mut relocated.groups;
            let copying = async { self.copy_out(ready?, &all_read, groups).await };
            match beside(copying, following.as_mut()).await {
                Ok(Copied::Whole(moved)) => relocated.add(zone, moved),
                Ok(Copied::Part(moved, written)) => {
                    relocated.add(zone, moved);
                    (relocated.part, relocated.rests) = (Some(zone), Some(written));
                    break;
                }
                Ok(Copied::Closing) => return Ok(None),
                Err(error) if self.state().failed.is_some() => return Err(error),
                Err(error) => {
                    self.spare(zone, &error);
                    if error.kind == ErrorKind::NoSpace {
                        relocated.cramped = true;
                        break;
                    }
                }
            }
            all_read.note(); // Or as much as ever will be.
            following.as_mut().await;
            next = following.take_output().flatten();
        }
        drop(next); // It holds what was read of a victim that is not copied now.
        self.wait_for_moved(&mut relocated.groups).await?;
        if self.state().log.breaks != breaks {
            self.give_up_copies(&mut relocated);
        }
        Ok(Some(relocated))
    }

    /// An append failed meanwhile, perhaps of a group with copies: the victims stay in force.
    fn give_up_copies(&self, relocated: &mut Relocated) {
        let mut state = self.state();
        for victim in relocated.batch.victims.drain(..) {
            state.reclaim.index.remove(victim.zone);
            state.reclaim.counters.copy_forward_failures += 1;
        }
        relocated.moves = Relocations::builder();
        relocated.part = None;
    }

    /// Waits until what was copied is written.
    async fn wait_for_moved(&self, groups: &mut BTreeSet<u64>) -> Result<(), Error> {
        self.state().reclaim.batch_copied(self.runtime().now());
        self.inner.lead_wanted.notify(1);
        self.notify();
        if let Some(last) = groups.last().copied() {
            self.wait_while(|state| {
                groups.retain(|group| state.log.is_in_flight(*group));
                state.failed.is_none() && (!groups.is_empty() || state.log.waits_for_group(last))
            })
            .await;
        }
        self.state().failed.clone().map_or(Ok(()), Err)
    }
}

/// Completes with `main`; until then `other` makes what progress it can, after each look at `main`.
async fn beside<T, F: Future>(
    main: impl Future<Output = T>,
    mut other: Pin<&mut MaybeDone<F>>,
) -> T {
    let mut main = pin!(main);
    poll_fn(|context| {
        let polled = main.as_mut().poll(context);
        if polled.is_pending() {
            let _ = other.as_mut().poll(context);
        }
        polled
    })
    .await
}

impl State {
    /// Whether clients may open no segment.
    fn is_at_reserve(&self) -> bool {
        self.space.free_count() <= self.space.reserve()
    }
}
