//! The map's use of memory.

use crate::Map;

/// The memory that the map takes, and the work that it has deferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Ids in use or not swept yet, in memory or not.
    pub nodes: usize,
    /// Nodes in memory.
    pub resident: usize,
    /// Leaves in memory.
    pub leaves: usize,
    /// Bytes of the nodes in memory, unused capacity included, and of the words that leaves share.
    pub resident_bytes: usize,
    /// Bytes of the nodes that must be written before eviction, shared words excluded.
    pub dirty_bytes: usize,
    /// Bytes of the node table and its lists.
    pub table_bytes: usize,
    /// Bytes of superseded versions held outside the map. Includes released versions that
    /// [`Map::forget_superseded`] has not seen yet.
    pub frozen_bytes: usize,
    /// Dropped subtrees that [`Map::free_some`] has yet to free, each counted once.
    pub deferred: usize,
}

impl Usage {
    /// All memory: resident nodes, the table, and versions held outside.
    pub fn bytes(&self) -> usize {
        self.resident_bytes + self.table_bytes + self.frozen_bytes
    }
}

impl Map {
    /// The most bytes of nodes that the next checkpoint writes.
    pub fn unwritten_bytes(&self) -> usize {
        self.table.accounts.unwritten
    }

    /// Ids in use, as in [`usage`](Map::usage), but faster.
    pub fn nodes(&self) -> usize {
        self.table.accounts.nodes
    }

    /// The map's present use of memory.
    pub fn usage(&self) -> Usage {
        let accounts = self.table.accounts;
        Usage {
            nodes: accounts.nodes,
            resident: accounts.resident,
            leaves: accounts.leaves,
            resident_bytes: self.resident_bytes(),
            dirty_bytes: accounts.dirty_bytes,
            table_bytes: self.table.bytes() + self.displaced.bytes(),
            frozen_bytes: self.table.superseded.bytes(),
            deferred: self.table.dead.len(),
        }
    }

    /// Bytes of the nodes in memory, as in [`usage`](Map::usage) but faster: the part of it that
    /// changes most.
    pub fn resident_bytes(&self) -> usize {
        self.table.accounts.bytes + self.table.base_bytes()
    }
}
