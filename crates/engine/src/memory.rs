//! The memory budget: what it pays for, and what leaves memory when it is spent.
//!
//! One budget covers everything that grows with the store or the load. What cannot be dropped (the
//! node table, acknowledged data on its way, buffers for reads, versions that a walker holds,
//! reclaim's index and moves, map nodes that wait for a checkpoint) is paid first. Clean map nodes and
//! checksums share what is left: neither is pressed below its part while the other exceeds its own, and
//! either may use what the other leaves.

use crate::options::OpenOptions;

/// Unwritten data that is always allowed: a few groups.
const DIRTY_BYTES_MIN: u64 = 2 << 20;

/// Dirty map nodes that are always allowed: more than an operation makes, or each would have a
/// checkpoint of its own.
const DIRTY_NODES_MIN: u64 = 128 << 10;

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
    pub(crate) fn fixed(&self) -> u64 {
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
