//! The memory budget: its consumers, and the order of eviction.
//!
//! One budget covers every structure that grows with the store or the load. Structures that cannot
//! be dropped are counted first: the node table, acknowledged data in flight, read buffers, node
//! versions that a walker holds, reclaim's index and moves, and map nodes that wait for a
//! checkpoint. Clean map nodes and checksums share the rest: neither is evicted below its part
//! while the other exceeds its own, and either may use the part that the other leaves.

use crate::options::OpenOptions;

/// Unwritten data always allowed, in bytes: a few groups.
const DIRTY_BYTES_MIN: u64 = 2 << 20;

/// Dirty map nodes always allowed, in bytes: more than one operation creates. Below that, each
/// operation would need its own checkpoint.
const DIRTY_NODES_MIN: u64 = 128 << 10;

/// Reclaim's reverse index may take 1/32 of the budget.
const INDEX_SHARE: u64 = 32;

/// Relocating several segments at once may take 1/64 of the budget. Relocating one segment has no
/// such limit.
const BATCH_SHARE: u64 = 64;

/// One map node may be loaded concurrently per 256 KiB of budget, up to `LOADS_MAX`.
const LOAD_SHARE: u64 = 256 << 10;

const LOADS_MAX: u64 = 64;

/// The jobs of a mark may hold one leaf per 24 KiB of budget.
const LEAF_SHARE: u64 = 24 << 10;

/// The smallest budget, in bytes, in which reclaim may hold leaves: they take only a small part of
/// it.
const HOLD_LEAVES_MIN: u64 = 64 << 20;

/// The engine's memory use, in bytes.
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
    /// New addresses of the blocks of segments that are being relocated.
    pub batch: u64,
    pub unwritten: u64,
    /// Buffers for reads and for clients' data, in use or idle, less the bytes already counted as
    /// unwritten.
    pub buffers: u64,
    /// The placement policy's own state.
    pub placement: u64,
}

impl MemoryUse {
    pub fn total(&self) -> u64 {
        self.fixed() + self.nodes + self.checksums
    }

    /// Bytes that cannot be dropped at will.
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

/// Bytes of idle read buffers to keep: enough for relocation's read-ahead, for a deep queue of
/// clients, or for the payload that recovery verifies at once. At most twice `dirty_bytes_max`,
/// since relocation keeps to that bound, too.
pub(crate) fn buffer_bytes(options: &OpenOptions) -> usize {
    let relocated = options.dirty_bytes_max.saturating_mul(2);
    (options.memory_bytes / 16).min(64 << 20).min(relocated) as usize
}

/// Bytes of idle write buffers to keep for clients.
pub(crate) fn client_buffer_bytes(options: &OpenOptions) -> usize {
    buffer_bytes(options).min(32 << 20)
}

/// Bytes of memory for payload that outlives the process: all unwritten data, and data that clients
/// are sending meanwhile.
pub(crate) fn warm_bytes(options: &OpenOptions) -> usize {
    dirty_bytes_max(options) as usize + 2 * client_buffer_bytes(options)
}

/// Bytes of idle input buffers to keep: enough for a few clients, since only clients with input
/// left to decode hold one.
pub(crate) fn client_input_bytes(options: &OpenOptions) -> usize {
    buffer_bytes(options).min(1 << 20)
}

/// Most bytes for reclaim's reverse index.
pub(crate) fn index_bytes(options: &OpenOptions) -> u64 {
    options.memory_bytes / INDEX_SHARE
}

/// Most bytes for relocating several segments at once.
pub(crate) fn batch_bytes_max(options: &OpenOptions) -> u64 {
    options.memory_bytes / BATCH_SHARE
}

/// Map nodes loaded concurrently: few in a small budget, so that they do not evict nodes that
/// others have just loaded.
pub(crate) fn loads_at_once(options: &OpenOptions) -> usize {
    (options.memory_bytes / LOAD_SHARE).clamp(1, LOADS_MAX) as usize
}

/// Most leaves that a mark may hold for its jobs.
pub(crate) fn leaves_held(options: &OpenOptions) -> usize {
    (options.memory_bytes / LEAF_SHARE).max(1) as usize
}

/// Whether reclaim may hold about a megabyte of leaves while it visits others. Held leaves cannot
/// be evicted.
pub(crate) fn may_hold_leaves(options: &OpenOptions) -> bool {
    options.memory_bytes >= HOLD_LEAVES_MIN
}

/// Most bytes of acknowledged writes waiting in memory.
pub(crate) fn dirty_bytes_max(options: &OpenOptions) -> u64 {
    options.dirty_bytes_max.min((options.memory_bytes / 4).max(DIRTY_BYTES_MIN))
}

/// Bytes of dirty map nodes at which a checkpoint is due. Counted as bytes to write, no less than
/// the nodes' own memory. Dirty nodes cannot be evicted before a checkpoint writes them.
pub(crate) fn dirty_nodes_max(options: &OpenOptions) -> u64 {
    (options.memory_bytes / 4).max(DIRTY_NODES_MIN)
}

/// Most bytes of map nodes waiting for the next or the running checkpoint. A step that would add
/// more waits, since checkpoints may be slower than clients.
pub(crate) fn undurable_nodes_max(options: &OpenOptions) -> u64 {
    2 * dirty_nodes_max(options)
}
