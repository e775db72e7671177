//! A batch: victims that are emptied together, as far as there is room for it, so that a leaf that refers to
//! several of them is looked at and copied once, and its image is written once.

use mjolnir_device::{Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ZoneId};

use crate::drive::{Engine, State};
use crate::memory::batch_bytes_max;
use crate::options::OpenOptions;
use crate::pacing::LeafSet;
use crate::reclaim::victim::{LiveRun, Victim};

/// Memory for each block of a victim: whether it is live, and where it went.
const TABLE_BYTES: u64 = 1 + 8;

/// Memory for each live block, where no two go to places next to each other.
const MOVE_BYTES: u64 = 24;

/// Memory for each live block of two victims, where no two have one owner: the victim that is being copied, and
/// the next one.
const RUN_BYTES: u64 = size_of::<LiveRun>() as u64;

/// Victims that are emptied together.
#[derive(Debug, Default)]
pub(in crate::reclaim) struct Batch {
    /// Those that nothing has gone wrong with, the most promising first.
    pub victims: Vec<Victim>,
    /// Whether many leaves that refer to them have a twin.
    pub twins: bool,
}

impl State {
    /// The candidates to be emptied next. The index keeps them until [`end_batch`](Self::end_batch).
    pub(in crate::reclaim) fn next_batch(&mut self, options: &OpenOptions) -> Batch {
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
        Batch { victims: victims.into_iter().map(Victim::new).collect(), twins: false }
    }

    /// Nothing is being emptied any more.
    pub(in crate::reclaim) fn end_batch(&mut self) {
        self.reclaim.index.hold(&[]);
        self.reclaim.batch_bytes = 0;
        self.reclaim.rhythm.abandon();
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// A segment could not be emptied: it is no candidate any more, and its old data stays in force. Unless
    /// there was no room for its blocks, it is not tried again before its live blocks have changed, or the
    /// device may have recovered.
    pub(in crate::reclaim) fn spare(&self, zone: ZoneId, why: &Error) {
        {
            let mut state = self.state();
            state.reclaim.counters.copy_forward_failures += 1;
            state.reclaim.index.remove(zone);
        }
        if why.kind != ErrorKind::NoSpace {
            self.note_stuck(zone, why);
        }
    }

    /// Takes a victim out of a batch, and [spares](Self::spare) it. Does nothing if the batch has none in the
    /// zone any more.
    pub(in crate::reclaim) fn spare_one_of(&self, batch: &mut Batch, zone: ZoneId, why: &Error) {
        let before = batch.victims.len();
        batch.victims.retain(|victim| victim.zone != zone);
        if batch.victims.len() < before {
            self.spare(zone, why);
        }
    }

    /// Spares the victims that a leaf may refer to which could not be read. Fails if the store has.
    pub(in crate::reclaim) fn spare_referred_by(
        &self,
        batch: &mut Batch,
        leaf: NodeId,
        error: Error,
    ) -> Result<(), Error> {
        let referred: Vec<ZoneId> = {
            let state = self.state();
            if state.failed.is_some() {
                return Err(error);
            }
            let refers = |victim: &&Victim| victim.referrers(&state.reclaim).contains(leaf);
            batch.victims.iter().filter(refers).map(|victim| victim.zone).collect()
        };
        referred.into_iter().for_each(|zone| self.spare_one_of(batch, zone, &error));
        Ok(())
    }
}
