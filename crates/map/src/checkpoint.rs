//! Checkpoints: which nodes must be written, where they came to lie, and the durable node table
//! that says so. Also how nodes come back into memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use mjolnir_units::TreeId;

use crate::form;
use crate::image::{Decoded, check_root};
use crate::node::Body;
use crate::table::{DEAD, DIRTY, FREED, LISTED, PENDING, TABLE_PAGE, Table, USED};
use crate::words::Patched;
use crate::{Absent, DecodeError, Map, Node, NodeAddress, NodeId, Root};

/// The map at the moment of a checkpoint.
#[derive(Debug)]
pub struct Frozen {
    /// The nodes to write: all that changed since they were last placed. By id, but leaves that have
    /// words in common follow the first of them, as [`with_one_base`](crate::with_one_base) wants it.
    pub nodes: Vec<(NodeId, Arc<Node>)>,
    /// All trees, by id.
    pub roots: Vec<(TreeId, Root)>,
    /// Where images lie that this checkpoint does not need any more, because their ids are free.
    pub released: Vec<NodeAddress>,
}

impl Map {
    /// Begins a checkpoint of the present state. Write the image of each node,
    /// [`place`](Map::placed) it, then write the [`dirty_pages`](Map::dirty_pages) of the node
    /// table and the roots; other operations may run meanwhile. The checkpoint before must have
    /// been placed or abandoned.
    ///
    /// Until the checkpoint is durable the one before it must stay readable: what is `released`
    /// here, and what [`placed`](Map::placed) returns, may be overwritten only then.
    pub fn freeze(&mut self) -> Frozen {
        self.sweep(usize::MAX); // What is gone is neither written nor in the durable table.
        let table = &mut self.table;
        assert_eq!(table.pending, 0, "the checkpoint before is still being placed");
        table.pages_in_flight.clear();
        let mut nodes = Vec::new();
        for id in std::mem::take(&mut table.dirty) {
            let slot = table.slot(id);
            slot.clear(LISTED);
            if !slot.has(DIRTY) {
                continue;
            }
            slot.clear(DIRTY);
            slot.set(PENDING);
            let node = slot.node.clone().expect("a dirty node is in memory");
            table.accounts.remove_dirty(&node);
            nodes.push((id, node));
        }
        form::sort(&mut nodes);
        table.pending = nodes.len();
        debug_assert!(table.accounts.dirty_bytes == 0 && table.accounts.unwritten == 0);
        let mut released = std::mem::take(&mut table.released);
        for id in std::mem::take(&mut table.freed) {
            // An id that was used again is among the nodes; its address is superseded when that
            // is placed.
            table.slot(id).clear(FREED);
            if !table.slot(id).has(USED) {
                released.extend(table.set_address(id, 0));
            }
        }
        let roots = self.roots.iter().map(|(tree, root)| (*tree, *root)).collect();
        Frozen { nodes, roots, released }
    }

    /// Whether a checkpoint would write a node, or release one's place.
    pub fn is_changed(&self) -> bool {
        let Table { dirty, freed, released, unswept, .. } = &self.table;
        !(dirty.is_empty() && freed.is_empty() && released.is_empty() && unswept.is_empty())
    }

    /// The frozen version of `id` lies at `address` (not 0) now, and stays readable there until
    /// the address is returned as superseded or released. Returns the address that it supersedes.
    pub fn placed(&mut self, id: NodeId, address: NodeAddress) -> Option<NodeAddress> {
        assert_ne!(address.0, 0, "0 is no address");
        let slot = self.table.slot(id);
        assert!(slot.has(PENDING), "{id} is placed once for each time it was frozen");
        slot.clear(PENDING);
        self.table.pending -= 1;
        self.table.set_address(id, address.0)
    }

    /// The checkpoint failed. What it was to write is dirty again, and what it was to release is
    /// released by the next one. Nodes that were placed keep their new address until the next
    /// checkpoint supersedes it.
    pub fn abandon(&mut self, frozen: Frozen) {
        let table = &mut self.table;
        for (id, node) in frozen.nodes {
            drop(node);
            let slot = table.slot(id);
            if slot.has(PENDING) {
                slot.clear(PENDING);
                table.pending -= 1;
            }
            if table.slot(id).node.is_some() {
                table.mark_dirty(id);
            }
        }
        table.released.extend(frozen.released);
        let pages = std::mem::take(&mut table.pages_in_flight);
        table.pages_dirty.extend(pages);
    }

    /// Looks at up to `limit` versions that were superseded while somebody held them, such as a
    /// checkpoint, on from where it stopped before, and gives back what is left of those that nobody
    /// holds any more. From the last one it begins anew; returns how often that has been reached: all were
    /// looked at when it is two more.
    pub fn forget_superseded(&mut self, limit: usize) -> u64 {
        self.table.superseded.forget(limit)
    }

    /// The same for all of them at once.
    pub fn forget_all_superseded(&mut self) {
        self.table.superseded.forget_all();
    }

    /// The pages of the durable node table that changed since the last call, in order. Call it
    /// once a checkpoint, when all its nodes are placed; and read [`pages`](Map::pages) and
    /// [`table_page`](Map::table_page) before any other operation on the map.
    pub fn dirty_pages(&mut self) -> Vec<u32> {
        let pages = std::mem::take(&mut self.table.pages_dirty);
        self.table.pages_in_flight.extend(&pages);
        pages.into_iter().collect()
    }

    /// A page of the durable node table, as of the last [`freeze`](Map::freeze) and what was
    /// [`placed`](Map::placed) since: the address of each id, 0 where there is none. Page `p` holds
    /// the ids from `p * TABLE_PAGE`.
    pub fn table_page(&self, page: u32) -> [u64; TABLE_PAGE] {
        self.table.page(page).each_ref().map(|slot| slot.address)
    }

    /// Pages of the durable node table.
    pub fn pages(&self) -> u32 {
        self.table.page_count()
    }

    /// The map of a checkpoint, with no node in memory.
    pub fn load(
        roots: Vec<(TreeId, Root)>,
        pages: Vec<[u64; TABLE_PAGE]>,
    ) -> Result<Map, DecodeError> {
        let mut table = Table::default();
        if pages.len() > (u32::MAX as usize + 1) / TABLE_PAGE {
            return Err(DecodeError::new(format!("a node table has {} pages", pages.len())));
        }
        if pages.first().is_some_and(|page| page[0] != 0) {
            return Err(DecodeError::new("a node table has an address for node 0"));
        }
        pages.iter().for_each(|page| table.push_page(page));
        table.loaded();
        let mut trees = BTreeMap::new();
        for (tree, root) in roots {
            check_root(&root)?;
            let child = root.edge.child;
            if !table.is_used(child) {
                return Err(DecodeError::new(format!(
                    "the root of tree {} names {child}, which is not in the node table",
                    tree.0
                )));
            }
            if !table.learn_level(child, root.level) {
                return Err(DecodeError::new(format!("two roots give {child} different levels")));
            }
            if trees.insert(tree, root).is_some() {
                return Err(DecodeError::new(format!("tree {} has two roots", tree.0)));
            }
        }
        Ok(Map { table, roots: trees, ..Map::default() })
    }

    /// Where the image of an absent node lies. For a node in memory, where its last placed version
    /// does. None if the id is free, or was never placed.
    pub fn address(&self, id: NodeId) -> Option<NodeAddress> {
        let slot = self.table.is_used(id).then(|| self.table.slot(id))?;
        (slot.address != 0).then_some(NodeAddress(slot.address))
    }

    /// Takes an absent node into memory. Does nothing if the node is there already, or is gone.
    ///
    /// If other operations ran since the image was read, check first that [`address`](Map::address)
    /// is still where it was read from: else it may be an old version.
    pub fn install(&mut self, id: NodeId, image: &[u8]) -> Result<(), DecodeError> {
        self.install_at(id, image, None, &[])
    }

    /// As [`install`](Map::install), of an image that lies `at` so many bytes from somewhere, and with
    /// what [`BaseBefore`](crate::BaseBefore) says of it. Leaves that had words in common have them so
    /// again, if they come while others are in memory.
    pub fn install_at(
        &mut self,
        id: NodeId,
        image: &[u8],
        at: Option<u64>,
        base: &[u8],
    ) -> Result<(), DecodeError> {
        let table = &mut self.table;
        if !table.has_slot(id) {
            return Err(DecodeError::new(format!("{id} is not in the node table")));
        }
        let slot = table.slot(id);
        if !table.is_used(id) || slot.node.is_some() {
            return Ok(());
        }
        let node = table.decode(id, image, at, base)?;
        let wrong = |what: String| DecodeError::new(format!("the image of {id} {what}"));
        let slot = table.slot(id);
        if let Some(level) = slot.level()
            && level != node.level()
        {
            return Err(wrong(format!("has level {}, its parent says {level}", node.level())));
        }
        for edge in node.edges() {
            let child = edge.child;
            if child == id || !table.is_used(child) {
                return Err(wrong(format!("leads to {child}, which is not in use")));
            }
            if let Some(level) = table.slot(child).level()
                && level + 1 != node.level()
            {
                return Err(wrong(format!("leads to {child}, which has level {level}")));
            }
        }
        table.learn_level(id, node.level());
        for edge in node.edges() {
            table.learn_level(edge.child, node.level() - 1);
        }
        table.put_in(id, Arc::new(node));
        if let Some(mark) = &mut table.mark
            && mark.waiting.remove(&id)
        {
            table.grey(id); // Though it may be black: a leaf can be waiting to be seen again.
        }
        Ok(())
    }

    /// Has a node written again at the next checkpoint though it did not change, so that its
    /// present place becomes free. Does nothing if the id is free.
    pub fn redirty(&mut self, id: NodeId) -> Result<(), Absent> {
        if self.table.is_used(id) {
            self.table.get(id)?;
            self.table.mark_dirty(id);
        }
        Ok(())
    }

    /// Whether a node is in use, but not in memory.
    pub fn is_absent(&self, id: NodeId) -> bool {
        self.table.is_used(id) && self.table.version(id).is_none()
    }

    /// Whatever version it has, the node is not [`evict`](Map::evict)ed once it is in memory, until
    /// [`unkeep`](Map::unkeep) was called as often. Who holds a version instead has it copied before it is
    /// changed.
    pub fn keep(&mut self, id: NodeId) {
        self.table.keep(id);
    }

    /// Takes back one [`keep`](Map::keep).
    pub fn unkeep(&mut self, id: NodeId) {
        self.table.unkeep(id);
    }

    /// The nodes whose last placed version lies at an address that `here` accepts. Linear in the
    /// size of the node table.
    pub fn nodes_at(&self, here: impl Fn(NodeAddress) -> bool) -> Vec<NodeId> {
        let lies_here = |id: &NodeId| self.address(*id).is_some_and(&here);
        self.table.ids().filter(lies_here).collect()
    }

    /// A leaf as it is now; none if the id is free, or not a leaf's.
    pub fn leaf(&self, id: NodeId) -> Result<Option<Arc<Node>>, Absent> {
        if !self.table.is_used(id) {
            return Ok(None);
        }
        let slot = self.table.slot(id);
        if slot.has(DEAD) || slot.level().is_some_and(|level| level > 0) {
            return Ok(None);
        }
        self.table.get(id)?;
        Ok(slot.node.clone().filter(|node| node.is_leaf()))
    }
}

impl Table {
    /// The node of an image.
    fn decode(
        &mut self,
        id: NodeId,
        image: &[u8],
        at: Option<u64>,
        base: &[u8],
    ) -> Result<Node, DecodeError> {
        match Node::decode(id, image, base)? {
            Decoded::Node(node) => Ok(node),
            Decoded::Edited { base, begin, edits, blocks } => {
                let at = at.and_then(|at| at.checked_add_signed(begin));
                let base = self.bases.of(base, at);
                Ok(Node { blocks, body: Body::Patched(Patched { base, edits }) })
            }
        }
    }

    /// Changes the durable address of an id; returns the one before.
    fn set_address(&mut self, id: NodeId, address: u64) -> Option<NodeAddress> {
        self.pages_dirty.insert(id.0 / TABLE_PAGE as u32);
        let old = std::mem::replace(&mut self.slot_mut(id).address, address);
        (old != 0).then_some(NodeAddress(old))
    }
}
