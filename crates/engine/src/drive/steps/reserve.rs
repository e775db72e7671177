//! The size of the next checkpoint, the segments reserved for it, and whether their shortage makes
//! one due.

use crate::drive::state::State;
use crate::memory::undurable_nodes_max;
use crate::options::OpenOptions;

impl State {
    /// Whether the map's nodes that wait for a checkpoint exceed their bound in memory.
    pub(crate) fn outruns_checkpoints(&self, options: &OpenOptions) -> bool {
        self.undurable_map_bytes() > undurable_nodes_max(options)
    }
}

/// Most memory that recovery takes for one record, in bytes; and the number of records that a log
/// may have whatever the budget.
const RECORD_BYTES: u64 = 256;

const RECORDS_LEAST: u64 = 256 << 10;

impl State {
    /// Whether replaying the log would reach its limit of time or memory. Recovery holds all of the
    /// log's records, and small trims make many.
    pub fn is_log_long(&self, options: &OpenOptions) -> bool {
        let records_max = (options.memory_bytes / 4 / RECORD_BYTES).max(RECORDS_LEAST);
        self.log.since_checkpoint >= options.checkpoint_bytes
            || self.log.records_since_checkpoint >= records_max
    }

    /// Counts the map's sparse segments again, and updates the reserve.
    pub fn update_reserve(&mut self) {
        self.checkpoint.sparse_bytes = self.space.sparse_map_bytes();
        self.follow_reserve();
    }

    /// Updates the checkpoint's reserve to the size of the map's dirty part. Cheap: called after
    /// every step, since each may have made nodes dirty.
    pub fn follow_reserve(&mut self) {
        let bytes = self.checkpoint_bytes();
        self.space.reserve_for_checkpoint(bytes, self.checkpoint.sparse_bytes);
    }

    /// Most bytes that a checkpoint must write, not counting nodes that it moves to save space.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let (segments, trees) = (self.space.segments.len(), self.catalog.len());
        let pages = self.map.pages() as usize;
        // A prepared transaction takes at most a block; a tree's entry with its names takes some
        // 200 bytes.
        let transactions =
            4096 * (1 + self.transactions.prepared.len()) + 16 * self.transactions.committed.len();
        let manifest = 40 * segments + 200 * trees + 8 * pages + transactions;
        // Each dirty node may cause one page of the node table to be rewritten.
        let tables = pages * mjolnir_map::TABLE_PAGE * 8;
        let commit = self.transactions.commit_bytes();
        self.undurable_map_bytes() + commit + (tables + 2 * manifest) as u64
    }

    /// Bytes of nodes that the running or the next checkpoint must write.
    pub fn undurable_map_bytes(&self) -> u64 {
        self.map.unwritten_bytes() as u64 + self.checkpoint.pending_bytes
    }

    /// Whether free space is short, and dirty nodes reserve a good part of it.
    pub fn is_squeezed(&self) -> bool {
        self.space.free_count() <= self.space.reserve() + 1
            && self.map.unwritten_bytes() as u64 > self.space.payload_bytes() / 2
    }
}
