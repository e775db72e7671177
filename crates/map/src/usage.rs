//! What the map takes of memory.

use crate::Map;

/// Memory that the map takes, and the work it has put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Ids in use, and those that are not swept yet, in memory or not.
    pub nodes: usize,
    /// Nodes in memory.
    pub resident: usize,
    /// Leaves in memory.
    pub leaves: usize,
    /// Bytes of the nodes in memory, unused capacity included, and of the words that leaves have in
    /// common.
    pub resident_bytes: usize,
    /// Bytes of those among them that must be written before they can be evicted; without words in
    /// common.
    pub dirty_bytes: usize,
    /// Bytes of the node table and its lists.
    pub table_bytes: usize,
    /// Bytes of superseded versions that someone outside the map still holds, as far as
    /// [`Map::forget_superseded`] was told that nobody does.
    pub frozen_bytes: usize,
    /// Dropped subtrees that [`Map::free_some`] has yet to work off, each counted once.
    pub deferred: usize,
}

impl Usage {
    /// All memory: nodes in it, the table, and versions held outside.
    pub fn bytes(&self) -> usize {
        self.resident_bytes + self.table_bytes + self.frozen_bytes
    }
}

impl Map {
    /// Bytes of nodes that the next checkpoint has to write at most.
    pub fn unwritten_bytes(&self) -> usize {
        self.table.accounts.unwritten
    }

    /// Ids in use, as in [`usage`](Map::usage), and quicker to come by.
    pub fn nodes(&self) -> usize {
        self.table.accounts.nodes
    }

    /// What the map takes of memory now.
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

    /// Bytes of the nodes in memory: what changes most of [`usage`](Map::usage), and quicker to come by.
    pub fn resident_bytes(&self) -> usize {
        self.table.accounts.bytes + self.table.base_bytes()
    }
}
