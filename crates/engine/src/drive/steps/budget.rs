//! Keeps the store's memory use within its budget.

use crate::drive::state::State;
use crate::memory::MemoryUse;
use crate::options::OpenOptions;

/// Bytes of clean nodes that stay in memory even where dirty ones fill the budget (a checkpoint is
/// then due): at least the upper nodes, which nearly every step needs.
const CLEAN_BYTES_MIN: u64 = 128 << 10;

/// Evictable nodes and checksums keep 1/8 of the budget, whatever the other structures take.
const DROPPABLE_SHARE: u64 = 8;

/// Checksums keep up to 1/3 of the evictable part. A mapped block costs eight bytes in the map and
/// four of checksums.
const CHECKSUM_SHARE: u64 = 3;

/// Superseded node versions checked for holders at each call. Checking all of them again and again,
/// while a large map is written, would take longer than the write.
const VERSIONS_A_LOOK: usize = 512;

/// Bytes too few to be worth an eviction scan.
fn few_bytes(options: &OpenOptions) -> u64 {
    options.memory_bytes / 64
}

impl State {
    /// Bytes of buffers, not counting unwritten data: it lies in buffers too, usually clients'.
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

    /// Whether there are idle buffers to free.
    pub fn buffers_can_rest(&self) -> bool {
        [&self.buffers, &self.client_buffers, &self.client_inputs]
            .iter()
            .any(|buffers| buffers.can_rest())
    }

    /// Bytes of the structures that nearly every step enlarges.
    fn growing_bytes(&self) -> u64 {
        self.map.resident_bytes() as u64 + self.log.dirty_bytes
    }

    /// As [`keep_within`](Self::keep_within), but only if memory use grew by more than a few bytes
    /// since the last call, or since its lowest value after it. Cheap: called after every step.
    pub fn follow_budget(&mut self, options: &OpenOptions) {
        let now = self.growing_bytes();
        self.kept_at = self.kept_at.min(now);
        if now - self.kept_at > few_bytes(options) {
            self.keep_within(options);
        }
    }

    /// Evicts clean map nodes and checksums beyond the budget.
    pub fn keep_within(&mut self, options: &OpenOptions) {
        // Evict in batches: a scan costs the same for one node or many.
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
        // The memory that an eviction of nodes frees will soon hold nodes again. Checksums loaded
        // into it would be evicted then, and their device reads wasted.
        let soon = if nodes + 3 * few > nodes_most { 3 * few } else { 0 };
        let room = checksums_most.saturating_sub(soon).max(checksums_least);
        let bound = options.checksum_bytes_max;
        self.checksums.shrink_to(checksums_most.min(bound), room.min(bound));
        self.kept_at = self.growing_bytes();
    }
}
