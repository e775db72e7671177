//! How much a checkpoint would write, the segments that are kept for it, and whether one is due for want of them.

use crate::drive::state::State;
use crate::memory::undurable_nodes_max;
use crate::options::OpenOptions;

impl State {
    /// Whether checkpoints have more of the map to write than memory has room for.
    pub(crate) fn outruns_checkpoints(&self, options: &OpenOptions) -> bool {
        self.undurable_map_bytes() > undurable_nodes_max(options)
    }
}

/// What recovery takes for a record in memory at most, in bytes, and how many a log may have whatever
/// the budget.
const RECORD_BYTES: u64 = 256;

const RECORDS_LEAST: u64 = 256 << 10;

impl State {
    /// Whether replaying the log would take as long as it may, or as much memory: recovery holds all of
    /// its records, and those of small trims are many.
    pub fn is_log_long(&self, options: &OpenOptions) -> bool {
        let records_max = (options.memory_bytes / 4 / RECORD_BYTES).max(RECORDS_LEAST);
        self.log.since_checkpoint >= options.checkpoint_bytes
            || self.log.records_since_checkpoint >= records_max
    }

    /// Looks at the map's segments anew, and follows with the reserve.
    pub fn update_reserve(&mut self) {
        self.checkpoint.sparse_bytes = self.space.sparse_map_bytes();
        self.follow_reserve();
    }

    /// Follows the dirty part of the map with the segments kept for its checkpoint. Cheap: called
    /// after every step, since each may have made nodes dirty.
    pub fn follow_reserve(&mut self) {
        let bytes = self.checkpoint_bytes();
        self.space.reserve_for_checkpoint(bytes, self.checkpoint.sparse_bytes);
    }

    /// Bytes that a checkpoint has to write at most, but for what it moves to save space.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let (segments, trees) = (self.space.segments.len(), self.catalog.len());
        let pages = self.map.pages() as usize;
        // A prepared transaction is at most a block, a tree's entry with its names some 200 bytes.
        let transactions =
            4096 * (1 + self.transactions.prepared.len()) + 16 * self.transactions.committed.len();
        let manifest = 40 * segments + 200 * trees + 8 * pages + transactions;
        // Any page of the node table may have to be written again for one node.
        let tables = pages * mjolnir_map::TABLE_PAGE * 8;
        self.undurable_map_bytes() + (tables + 2 * manifest) as u64
    }

    /// Bytes of nodes that a checkpoint, running or next, has to write.
    pub fn undurable_map_bytes(&self) -> u64 {
        self.map.unwritten_bytes() as u64 + self.checkpoint.pending_bytes
    }

    /// Whether room is short, and a good part of it is kept for what is dirty.
    pub fn is_squeezed(&self) -> bool {
        self.space.free_count() <= self.space.reserve() + 1
            && self.map.unwritten_bytes() as u64 > self.space.payload_bytes() / 2
    }
}
