//! Relocate: the live blocks of some candidates are copied forward, the leaves repointed, and the
//! segments given up.
//!
//! Several are emptied together, as far as there is room for it: a leaf that refers to all of them
//! is looked at and copied once, and its image written once. While what one batch moved is being
//! written, the next one's live blocks are looked for and the first of them read, so that the device
//! has something to do; the map is worked on for one of them at a time.

use std::collections::BTreeSet;

use mjolnir_device::{Device, Runtime};
use mjolnir_map::{NodeId, Relocations, RelocationsBuilder};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::engine::{Engine, State};
use crate::memory::batch_bytes_max;
use crate::options::OpenOptions;
use crate::reclaim::copy::Copied;

/// Memory for each block of a victim: whether it is live, and where it went.
const TABLE_BYTES: u64 = 1 + 8;
/// Memory for each live one, where no two go to places next to each other.
const MOVE_BYTES: u64 = 24;

/// Candidates that are emptied together.
pub(super) struct Batch {
    /// Those that nothing has gone wrong with.
    pub victims: Vec<ZoneId>,
    /// Memory for it.
    bytes: u64,
}

/// A batch whose live blocks lie elsewhere, too.
struct Emptied {
    batch: Batch,
    /// The victim of which not all was copied: it stays as it is, with less in it that is live.
    part: Option<ZoneId>,
    moves: RelocationsBuilder,
    /// The groups that hold them.
    groups: BTreeSet<u64>,
    /// Whether leaves of the map are alike.
    twins: bool,
}

/// What became of the candidates so far.
#[derive(Default)]
pub(super) struct Relocation {
    /// Emptied, and still to be given up: while the first of the next batch are read.
    emptied: Option<Emptied>,
    /// Segments given up.
    pub retired: usize,
    /// Whether there was no room for one: there would be none for others.
    pub cramped: bool,
    /// It was broken off because nobody writes any more: since this sequence number.
    pub rests: Option<u64>,
}

impl Relocation {
    /// Candidates that are emptied.
    pub fn emptied(&self) -> &[ZoneId] {
        self.emptied.as_ref().map_or(&[], |emptied| &emptied.batch.victims)
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Empties the most promising candidates, and gives up those that were emptied before. Each is
    /// given up with the next call of this or of [`give_up_emptied`](Self::give_up_emptied), or is no
    /// candidate any more, unless there was no room, reclaim is to rest or the store is closing. Fails
    /// only if the store has.
    pub(super) async fn relocate(&self, relocation: &mut Relocation) -> Result<(), Error> {
        // There is no memory for another one beside a large batch, whose pauses count for little.
        let large = self.state().reclaim.batch_bytes > batch_bytes_max(&self.inner.options) / 2;
        if large || self.state().is_squeezed() {
            self.give_up_emptied(relocation).await?;
            self.relieve().await?;
            if relocation.cramped {
                return Ok(());
            }
        }
        let mut batch = self.state().next_batch(&self.inner.options, relocation.emptied());
        let mut live = self.live_blocks(&mut batch).await?;
        let twins = live.end_twins();
        let mut victims = batch.victims.clone().into_iter();
        let mut begun = match victims.next() {
            Some(zone) => Some((zone, self.begin_to_copy(zone, &live).await)),
            None => None,
        };
        // The first slice is on its way, and what was copied before is written meanwhile.
        self.give_up_emptied(relocation).await?;
        if relocation.cramped {
            self.state().reclaim.batch_bytes -= batch.bytes;
            return Ok(());
        }
        // Repointing made leaves dirty, as many bytes as are moved or more.
        self.relieve().await?;
        let mut moves = Relocations::builder();
        let mut groups = BTreeSet::new();
        let mut copied = Vec::new();
        let mut part = None;
        while let Some((zone, copying)) = begun.take() {
            let done = match copying {
                Ok(copying) => self.copy_out(copying, &mut groups).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(Copied::Whole(moved)) => {
                    moves.append(moved);
                    copied.push(zone);
                }
                Ok(Copied::Part(moved, written)) => {
                    moves.append(moved);
                    copied.push(zone);
                    part = Some(zone);
                    relocation.rests = Some(written);
                    break;
                }
                Ok(Copied::Closing) => return Ok(()),
                Err(error) if self.state().failed.is_some() => return Err(error),
                Err(error) => {
                    self.spare(&mut batch, zone, error.kind);
                    if error.kind == ErrorKind::NoSpace {
                        relocation.cramped = true;
                        break;
                    }
                }
            }
            // Clients took more meanwhile than was reckoned with: what is copied is given up first.
            if !copied.is_empty() && self.state().is_at_reserve() {
                break;
            }
            if let Some(zone) = victims.next() {
                begun = Some((zone, self.begin_to_copy(zone, &live).await));
            }
        }
        {
            let mut state = self.state();
            state.reclaim.index.hold(&copied);
            state.reclaim.batch_emptied(self.runtime().now());
        }
        self.inner.lead_wanted.notify(1);
        self.notify();
        batch.victims = copied;
        relocation.emptied = Some(Emptied { batch, part, moves, groups, twins });
        Ok(())
    }

    /// Takes a checkpoint where the dirty part of the map takes the room that moves need.
    async fn relieve(&self) -> Result<(), Error> {
        if self.state().is_squeezed() { self.checkpoint_within_task().await } else { Ok(()) }
    }

    /// Repoints the leaves that refer to what was emptied, once the copies are written, and gives it up.
    pub(super) async fn give_up_emptied(&self, relocation: &mut Relocation) -> Result<(), Error> {
        let Some(emptied) = relocation.emptied.take() else { return Ok(()) };
        let Emptied { mut batch, part, moves, mut groups, twins } = emptied;
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
        match self.repoint(&mut batch, &moves.build(), twins).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::NoSpace && self.state().failed.is_none() => {
                for zone in batch.victims.clone() {
                    self.spare(&mut batch, zone, error.kind);
                }
                relocation.cramped = true;
            }
            Err(error) => return Err(error),
        }
        batch.victims.retain(|zone| Some(*zone) != part);
        if self.inner.options.paranoid {
            for zone in &batch.victims {
                self.prove_unreferenced(*zone).await?;
            }
        }
        {
            let mut state = self.state();
            batch.victims.iter().for_each(|zone| state.retire(*zone));
            state.reclaim.batch_bytes -= batch.bytes;
        }
        relocation.retired += batch.victims.len();
        self.inner.checkpoint_wanted.notify(1);
        self.notify();
        Ok(())
    }

    /// A victim could not be emptied: it is no candidate any more, and its old data stays in force.
    /// Unless it was for want of space, it is not tried again before that has changed. Nothing
    /// happens to one that is spared already.
    pub(super) fn spare(&self, batch: &mut Batch, zone: ZoneId, why: ErrorKind) {
        if !batch.victims.contains(&zone) {
            return;
        }
        batch.victims.retain(|other| *other != zone);
        let mut state = self.state();
        state.reclaim.counters.copy_forward_failures += 1;
        state.reclaim.index.remove(zone);
        if why != ErrorKind::NoSpace {
            let segment = state.space.get_mut(zone);
            segment.stuck = segment.live;
        }
    }

    /// Spares the victims that a leaf may refer to which could not be read. Fails if the store has.
    pub(super) fn spare_what_refers(
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
                state.reclaim.index.leaves(*zone).is_some_and(|leaves| leaves.contains(&leaf))
            };
            batch.victims.iter().copied().filter(refers).collect()
        };
        zones.into_iter().for_each(|zone| self.spare(batch, zone, error.kind));
        Ok(())
    }
}

/// Lets other tasks run.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            std::task::Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
}

impl State {
    /// Whether clients may open no segment.
    fn is_at_reserve(&self) -> bool {
        self.space.free_count() <= self.space.reserve()
    }

    /// The candidates to be emptied next, the most promising first, besides those that are. The index
    /// keeps both until it is told otherwise.
    fn next_batch(&mut self, options: &OpenOptions, emptied: &[ZoneId]) -> Batch {
        // Space comes back only when all of them are empty. Until then clients go on, and in steady
        // state write what is won: together they take a segment for each victim.
        let room = self.space.free_count().saturating_sub(self.space.reserve()) / 2;
        let usage = self.map.usage();
        let leaf_bytes = (usage.bytes() / usage.resident.max(1)) as u64;
        let mut left = room as u64 * self.space.payload_bytes();
        let memory = batch_bytes_max(options).saturating_sub(self.reclaim.batch_bytes);
        let index = &mut self.reclaim.index;
        let mut batch = Batch { victims: Vec::new(), bytes: 0 };
        let mut blocks = 0;
        let candidates = index.candidates().filter(|zone| !emptied.contains(zone));
        for zone in candidates.take(room.max(1)) {
            let leaves = index.leaves(zone).map_or(0, |leaves| leaves.len() as u64);
            let live = self.space.get(zone).live.map_or(self.space.zone_blocks, u64::from);
            let needed = live * BLOCK_SIZE + leaves * leaf_bytes;
            let bytes = TABLE_BYTES * self.space.zone_blocks + MOVE_BYTES * live;
            let fits = needed <= left && batch.bytes + bytes <= memory;
            if !fits && !batch.victims.is_empty() {
                break;
            }
            left = left.saturating_sub(needed);
            batch.bytes += bytes;
            blocks += live;
            batch.victims.push(zone);
        }
        index.hold(&[emptied, &batch.victims].concat());
        self.reclaim.batch_bytes += batch.bytes;
        self.reclaim.rhythm.expect(blocks);
        batch
    }
}
