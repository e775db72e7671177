//! The memory budget: what it pays for, and what leaves memory when it is spent.
//!
//! One budget covers everything that grows with the store or the load. What cannot be dropped (the
//! node table, acknowledged data on its way, buffers for reads, versions that a walker holds,
//! reclaim's index and moves, map nodes that wait for a checkpoint) is paid first. Clean map nodes and
//! checksums share what is left: neither is pressed below its part while the other exceeds its own, and
//! either may use what the other leaves.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use mjolnir_device::{AlignedBuf, Device, Runtime};

use crate::engine::{Engine, State};
use crate::options::OpenOptions;

/// Clean nodes that stay in memory even where dirty ones fill the budget (a checkpoint is due
/// then): the upper ones at least, which nearly every step needs.
const CLEAN_BYTES_MIN: u64 = 128 << 10;
/// Unwritten data that is always allowed: a few groups.
const DIRTY_BYTES_MIN: u64 = 2 << 20;
/// Dirty map nodes that are always allowed: more than an operation makes, or each would have a
/// checkpoint of its own.
const DIRTY_NODES_MIN: u64 = 128 << 10;
/// The part of the budget that droppable things keep, whatever the others take: one in so many.
const DROPPABLE_SHARE: u64 = 8;
/// The part of what is droppable that checksums may hold on to: one in so many. A mapped block
/// costs eight bytes in the map and four of checksums.
const CHECKSUM_SHARE: u64 = 3;
/// The part of the budget that reclaim's reverse index may take: one in so many.
const INDEX_SHARE: u64 = 32;
/// The part that relocation of several segments at once may take, one in so many; a single one takes
/// what it takes.
const BATCH_SHARE: u64 = 64;
/// Bytes of budget for each map node that is brought into memory beside others, and the most of those.
const LOAD_SHARE: u64 = 256 << 10;
const LOADS_MAX: u64 = 64;
/// Bytes of budget for each leaf that jobs of a mark hold.
const LEAF_SHARE: u64 = 24 << 10;
/// A budget of which the leaves that reclaim holds are a small part.
const HOLD_LEAVES_MIN: u64 = 64 << 20;

/// Versions of nodes of which it is found out whenever the budget is kept whether somebody holds them still.
/// Of all of them, again and again while a large map is written, it would take longer than to write it.
const VERSIONS_A_LOOK: usize = 512;
/// How long buffers are kept that nobody uses: what is needed again sooner is not asked of the system,
/// which would have to clear it, again and again.
const BUFFERS_REST: Duration = Duration::from_secs(1);

/// What the engine holds in memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryUse {
    pub nodes: u64,
    pub table: u64,
    pub frozen: u64,
    pub checksums: u64,
    /// Checksums of open segments.
    pub open_checksums: u64,
    pub index: u64,
    pub mark: u64,
    /// Where the blocks of segments being relocated go.
    pub batch: u64,
    pub unwritten: u64,
    /// Buffers for reads and for what clients write or send, kept or in use, but for as many as hold what
    /// counts as unwritten.
    pub buffers: u64,
    /// What the placement policy remembers.
    pub placement: u64,
}

impl MemoryUse {
    pub fn total(&self) -> u64 {
        self.fixed() + self.nodes + self.checksums
    }

    /// What cannot be dropped at will.
    fn fixed(&self) -> u64 {
        self.table
            + self.frozen
            + self.index
            + self.mark
            + self.batch
            + self.unwritten
            + self.buffers
            + self.placement
            + self.open_checksums
    }
}

/// Bytes of buffers for reads that are kept while nobody uses them: what relocation reads ahead, or
/// a deep queue of clients, and of payload that recovery verifies at once. Where little may wait to be
/// written, little is relocated at once.
pub(crate) fn buffer_bytes(options: &OpenOptions) -> usize {
    let relocated = options.dirty_bytes_max.saturating_mul(2);
    (options.memory_bytes / 16).min(64 << 20).min(relocated) as usize
}

/// Bytes of buffers for what clients write that are kept while nobody uses them.
pub(crate) fn client_buffer_bytes(options: &OpenOptions) -> usize {
    buffer_bytes(options).min(32 << 20)
}

/// Bytes of memory for payload that outlives the process: all that may wait to be written, and what clients
/// are sending meanwhile.
pub(crate) fn warm_bytes(options: &OpenOptions) -> usize {
    dirty_bytes_max(options) as usize + 2 * client_buffer_bytes(options)
}

/// Bytes of memory for what clients send that are kept while nobody uses them: for a few clients, since
/// only those have some of which there is something to decode.
pub(crate) fn client_input_bytes(options: &OpenOptions) -> usize {
    buffer_bytes(options).min(1 << 20)
}

/// Bytes that reclaim's reverse index may take of a budget.
pub(crate) fn index_bytes(options: &OpenOptions) -> u64 {
    options.memory_bytes / INDEX_SHARE
}

/// Bytes that relocating several segments at once may take.
pub(crate) fn batch_bytes_max(options: &OpenOptions) -> u64 {
    options.memory_bytes / BATCH_SHARE
}

/// Map nodes that are brought into memory at once: so few in a small budget that they do not drive out
/// what others have just brought.
pub(crate) fn loads_at_once(options: &OpenOptions) -> usize {
    (options.memory_bytes / LOAD_SHARE).clamp(1, LOADS_MAX) as usize
}

/// Leaves that a mark may hold for its jobs.
pub(crate) fn leaves_held(options: &OpenOptions) -> usize {
    (options.memory_bytes / LEAF_SHARE).max(1) as usize
}

/// Whether reclaim may hold leaves, some megabyte of them, while it looks at others: what it holds
/// cannot be dropped from memory.
pub(crate) fn may_hold_leaves(options: &OpenOptions) -> bool {
    options.memory_bytes >= HOLD_LEAVES_MIN
}

/// Bytes of acknowledged writes that may wait in memory.
pub(crate) fn dirty_bytes_max(options: &OpenOptions) -> u64 {
    options.dirty_bytes_max.min((options.memory_bytes / 4).max(DIRTY_BYTES_MIN))
}

/// Bytes that may be to write for map nodes that wait for a checkpoint, no less than they hold of memory
/// by themselves: they cannot leave it before, so with more of them one is due.
pub(crate) fn dirty_nodes_max(options: &OpenOptions) -> u64 {
    (options.memory_bytes / 4).max(DIRTY_NODES_MIN)
}

/// Bytes of map nodes that may wait for a checkpoint or for one that runs to write them: whoever
/// would make more of them dirty waits, since a checkpoint may be slower than they are.
pub(crate) fn undurable_nodes_max(options: &OpenOptions) -> u64 {
    2 * dirty_nodes_max(options)
}

/// Bytes that are not worth looking for something to drop.
fn few_bytes(options: &OpenOptions) -> u64 {
    options.memory_bytes / 64
}

impl State {
    /// What counts as unwritten lies in buffers, too, those of clients as a rule.
    fn buffer_bytes(&self) -> u64 {
        let (reads, clients) = (&self.buffers, &self.client_buffers);
        let unused = clients.unused_arena_bytes();
        let kept = (reads.kept_bytes() + clients.kept_bytes() + unused) as u64;
        let all = (reads.bytes() + clients.bytes() + unused) as u64;
        kept.max(all.saturating_sub(self.log.dirty_bytes)) + self.client_inputs.bytes() as u64
    }

    pub fn memory(&self) -> MemoryUse {
        let usage = self.map.usage();
        MemoryUse {
            nodes: usage.resident_bytes as u64,
            table: usage.table_bytes as u64,
            frozen: usage.frozen_bytes as u64,
            checksums: self.checksums.bytes(),
            open_checksums: self.log.open_checksum_bytes(),
            index: self.reclaim.index.bytes(),
            mark: self.reclaim.mark_bytes,
            batch: self.reclaim.batch_bytes,
            unwritten: self.log.dirty_bytes,
            buffers: self.buffer_bytes(),
            placement: self.placement.bytes(),
        }
    }

    /// Whether there are buffers to be let go of, once nobody uses them.
    pub fn buffers_can_rest(&self) -> bool {
        [&self.buffers, &self.client_buffers, &self.client_inputs]
            .iter()
            .any(|buffers| buffers.can_rest())
    }

    /// Bytes of what nearly every step has more of.
    fn growing_bytes(&self) -> u64 {
        self.map.resident_bytes() as u64 + self.log.dirty_bytes
    }

    /// As [`keep_within`](Self::keep_within), if there is much more to be held than at its last call, or
    /// than at some time since. Cheap: called after every step.
    pub fn follow_budget(&mut self, options: &OpenOptions) {
        let now = self.growing_bytes();
        self.kept_at = self.kept_at.min(now);
        if now - self.kept_at > few_bytes(options) {
            self.keep_within(options);
        }
    }

    /// Drops clean map nodes and checksums beyond the budget.
    pub fn keep_within(&mut self, options: &OpenOptions) {
        // Nodes go when there are a few more than that, since looking for some takes as long for one
        // as for many.
        let few = few_bytes(options);
        let budget = options.memory_bytes - few;
        self.map.forget_superseded(VERSIONS_A_LOOK);
        let memory = self.memory();
        let room = budget.saturating_sub(memory.fixed()).max(budget / DROPPABLE_SHARE);
        let mut nodes = memory.nodes;
        let stay = nodes.min(self.undurable_map_bytes() + CLEAN_BYTES_MIN);
        let checksums_least = room.saturating_sub(stay) / CHECKSUM_SHARE;
        let nodes_most = room - memory.checksums.min(checksums_least);
        let spare = (nodes.saturating_sub(nodes_most) + 2 * few).min(nodes - stay);
        if nodes > nodes_most && spare >= few {
            nodes -= self.map.evict(spare as usize) as u64;
        }
        let checksums_most = room.saturating_sub(nodes).max(checksums_least);
        // What nodes leave when some are evicted, the next ones will take: checksums that were loaded for it
        // would have to go then, and with them what was read of the device.
        let soon = if nodes + 3 * few > nodes_most { 3 * few } else { 0 };
        let room = checksums_most.saturating_sub(soon).max(checksums_least);
        let bound = options.checksum_bytes_max;
        self.checksums.shrink_to(checksums_most.min(bound), room.min(bound));
        self.kept_at = self.growing_bytes();
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The task that lets go of buffers that nobody has used for a while. Nothing wakes it while there are
    /// few.
    pub(crate) async fn buffers_task(self) {
        loop {
            let listener = self.inner.buffers_grown.listen();
            let can_rest = {
                let mut state = self.state();
                if state.stopping {
                    return;
                }
                let can_rest = state.buffers_can_rest();
                state.buffers_watched = can_rest;
                can_rest
            };
            if !can_rest {
                listener.await;
                continue;
            }
            select(listener, pin!(self.runtime().sleep(BUFFERS_REST))).await;
            let state = self.state();
            state.buffers.rest();
            state.client_buffers.rest();
            state.client_inputs.rest();
        }
    }

    /// A buffer to read into.
    pub(crate) fn buffer(&self, bytes: usize) -> AlignedBuf {
        let buffer = self.state().buffers.take(bytes);
        self.watch_buffers();
        buffer
    }

    /// Has buffers looked after, if there are more than few. Called after every step, and wherever some
    /// are taken without one.
    pub(crate) fn watch_buffers(&self) {
        let mut state = self.state();
        if !state.buffers_watched && state.buffers_can_rest() {
            state.buffers_watched = true;
            drop(state);
            self.inner.buffers_grown.notify(1);
        }
    }
}
