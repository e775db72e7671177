//! Relocate: the live blocks of some candidates are copied forward, the leaves repointed, and the
//! segments given up.
//!
//! Several are emptied together, as far as there is room for it: a leaf that refers to all of them
//! is looked at and copied once, and its image written once.

pub(crate) mod append;
pub(crate) mod copy;
pub(crate) mod live_runs;
pub(crate) mod repoint;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};

use futures_util::future::{MaybeDone, OptionFuture, maybe_done};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{NodeId, Relocations};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::drive::{Engine, State};
use crate::memory::batch_bytes_max;
use crate::options::OpenOptions;
use crate::pacing::LeafSet;
use crate::reclaim::mark::marked::Marked;
use crate::reclaim::relocate::copy::{AllRead, Copied};
use crate::reclaim::relocate::live_runs::LiveRun;

/// Memory for each block of a victim: whether it is live, and where it went.
const TABLE_BYTES: u64 = 1 + 8;

/// Memory for each live one, where no two go to places next to each other.
const MOVE_BYTES: u64 = 24;

/// Memory for each live one of two victims, where no two have one owner: of that which is copied, and
/// of that which is next.
const RUN_BYTES: u64 = size_of::<LiveRun>() as u64;

/// Candidates that are emptied together.
pub(crate) struct Batch {
    /// Those that nothing has gone wrong with.
    pub victims: Vec<ZoneId>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Relocated {
    /// Segments given up.
    pub retired: usize,
    /// Whether there was no room for one: there would be none for others.
    pub cramped: bool,
    /// It was broken off because nobody writes any more: since this sequence number.
    pub rests: Option<u64>,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Empties the most promising candidates. Each of them is given up or no candidate any more
    /// afterwards, unless there was no room, reclaim is to rest or the store is closing. Fails only if
    /// the store has.
    pub(crate) async fn relocate(&self, marked: &mut Marked) -> Result<Relocated, Error> {
        let mut batch = self.state().next_batch(&self.inner.options);
        let relocated = self.relocate_batch(&mut batch, marked).await;
        self.leave_room_to_clients().await;
        let mut state = self.state();
        state.reclaim.index.hold(&[]);
        state.reclaim.batch_bytes = 0;
        state.reclaim.rhythm.abandon();
        relocated
    }

    async fn relocate_batch(
        &self,
        batch: &mut Batch,
        marked: &mut Marked,
    ) -> Result<Relocated, Error> {
        let mut relocated = Relocated::default();
        let (live, twins) = self.live_blocks(batch, marked).await?;
        let mut moves = Relocations::builder();
        let mut groups = BTreeSet::new();
        let mut copied = Batch { victims: Vec::new() };
        let mut part = None;
        let mut next = batch.victims.clone().into_iter().peekable();
        let mut ready = None;
        while let Some(zone) = next.next() {
            // Clients took more meanwhile than was reckoned with: what is copied is given up first.
            if !copied.victims.is_empty() && self.state().is_at_reserve() {
                break;
            }
            let ready_now = match ready.take() {
                Some(ready) => ready,
                None => {
                    let nothing_before = AllRead::default();
                    nothing_before.note();
                    self.get_ready(zone, &live, &nothing_before).await
                }
            };
            // The headers of the next one are read while this one is copied, and its first round once
            // all of this one is on its way: else the device would wait for us in between.
            let all_read = AllRead::default();
            let following = next.peek().map(|zone| self.get_ready(*zone, &live, &all_read));
            let mut following = pin!(maybe_done(OptionFuture::from(following)));
            let copying = async { self.copy_out(zone, ready_now?, &all_read, &mut groups).await };
            match beside(copying, following.as_mut()).await {
                Ok(Copied::Whole(moved)) => {
                    moves.append(moved);
                    copied.victims.push(zone);
                }
                Ok(Copied::Part(moved, written)) => {
                    // It stays as it is, with less in it that is live.
                    moves.append(moved);
                    copied.victims.push(zone);
                    part = Some(zone);
                    relocated.rests = Some(written);
                    break;
                }
                Ok(Copied::Closing) => return Ok(relocated),
                Err(error) if self.state().failed.is_some() => return Err(error),
                Err(error) => {
                    self.spare(batch, zone, &error);
                    if error.kind == ErrorKind::NoSpace {
                        relocated.cramped = true;
                        break;
                    }
                }
            }
            all_read.note(); // Or as much as ever will be.
            following.as_mut().await;
            ready = following.take_output().flatten();
        }
        drop(ready); // It holds what was read of a victim that is not copied now.
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
        let failed = self.state().failed.clone();
        if let Some(error) = failed {
            return Err(error);
        }
        match self.repoint(&mut copied, &moves.build(), twins).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::NoSpace && self.state().failed.is_none() => {
                for zone in copied.victims.clone() {
                    self.spare(&mut copied, zone, &error);
                }
                return Ok(Relocated { cramped: true, ..relocated });
            }
            Err(error) => return Err(error),
        }
        copied.victims.retain(|zone| Some(*zone) != part);
        if self.inner.options.paranoid {
            for zone in &copied.victims {
                self.prove_unreferenced(*zone).await?;
            }
        }
        let mut state = self.state();
        for zone in &copied.victims {
            state.retire(*zone);
        }
        drop(state);
        relocated.retired = copied.victims.len();
        self.inner.checkpoint_wanted.notify(1);
        self.notify();
        Ok(relocated)
    }

    /// A victim could not be emptied: it is no candidate any more, and its old data stays in force.
    /// Unless it was for want of space, it is not tried again before what is live in it has changed, or
    /// the device may have recovered. Nothing happens to one that is spared already.
    pub(crate) fn spare(&self, batch: &mut Batch, zone: ZoneId, why: &Error) {
        if !batch.victims.contains(&zone) {
            return;
        }
        batch.victims.retain(|other| *other != zone);
        {
            let mut state = self.state();
            state.reclaim.counters.copy_forward_failures += 1;
            state.reclaim.index.remove(zone);
        }
        if why.kind != ErrorKind::NoSpace {
            self.note_stuck(zone, why);
        }
    }

    /// Spares the victims that a leaf may refer to which could not be read. Fails if the store has.
    pub(crate) fn spare_what_refers(
        &self,
        batch: &mut Batch,
        leaf: NodeId,
        error: Error,
    ) -> Result<(), Error> {
        let zones: Vec<ZoneId> = {
            let state = self.state();
            if state.failed.is_some() {
                return Err(error);
            }
            let refers = |zone: &ZoneId| {
                state.reclaim.index.leaves(*zone).is_some_and(|leaves| leaves.contains(leaf))
            };
            batch.victims.iter().copied().filter(refers).collect()
        };
        zones.into_iter().for_each(|zone| self.spare(batch, zone, &error));
        Ok(())
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
    pub(crate) fn is_at_reserve(&self) -> bool {
        self.space.free_count() <= self.space.reserve()
    }

    /// The candidates to be emptied next, the most promising first. The index keeps them until it is
    /// told otherwise.
    fn next_batch(&mut self, options: &OpenOptions) -> Batch {
        // Space comes back only when all of them are empty. Until then clients go on, and in steady
        // state write what is won: together they take a segment for each victim.
        let room = self.space.free_count().saturating_sub(self.space.reserve()) / 2;
        let usage = self.map.usage();
        let leaf_bytes = (usage.bytes() / usage.resident.max(1)) as u64;
        let mut left = room as u64 * self.space.payload_bytes();
        let (mut memory, mut blocks, mut live_most) = (0, 0, 0);
        let index = &mut self.reclaim.index;
        let mut victims: Vec<ZoneId> = Vec::new();
        for zone in index.candidates().take(room.max(1)) {
            let leaves = index.leaves(zone).map_or(0, LeafSet::len);
            let live = self.space.get(zone).live.map_or(self.space.zone_blocks, u64::from);
            let needed = live * BLOCK_SIZE + leaves * leaf_bytes;
            let bytes = TABLE_BYTES * self.space.zone_blocks + MOVE_BYTES * live;
            let runs = 2 * RUN_BYTES * live.max(live_most);
            let fits = needed <= left && memory + bytes + runs <= batch_bytes_max(options);
            if !fits && !victims.is_empty() {
                break;
            }
            left = left.saturating_sub(needed);
            memory += bytes;
            blocks += live;
            live_most = live.max(live_most);
            victims.push(zone);
        }
        index.hold(&victims);
        let runs = RUN_BYTES * live_most * victims.len().min(2) as u64;
        self.reclaim.batch_bytes = memory + runs;
        self.reclaim.rhythm.expect(blocks);
        Batch { victims }
    }
}
