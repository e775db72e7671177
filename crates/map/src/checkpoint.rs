//! Checkpoints: the nodes to write, their addresses, and the durable node table that holds these.
//! Also loads nodes back into memory.

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
    /// The nodes to write: all that changed since they were last placed. Sorted by id, except that
    /// leaves that share words follow the first of them, as [`with_one_base`](crate::with_one_base)
    /// requires.
    pub nodes: Vec<(NodeId, Arc<Node>)>,
    /// All trees, by id.
    pub roots: Vec<(TreeId, Root)>,
    /// Addresses of images that this checkpoint no longer needs, because their ids are free.
    pub released: Vec<NodeAddress>,
}

impl Map {
    /// Begins a checkpoint of the present state. Write the image of each node,
    /// [`place`](Map::placed) it, then write the [`dirty_pages`](Map::dirty_pages) of the node
    /// table and the roots; other operations may run meanwhile. The previous checkpoint must have
    /// been placed or abandoned.
    ///
    /// Until this checkpoint is durable, the previous one must stay readable: only then may the
    /// `released` addresses, and those that [`placed`](Map::placed) returned, be overwritten.
    pub fn freeze(&mut self) -> Frozen {
        self.sweep(usize::MAX); // Gone nodes are neither written nor in the durable table.
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
            // A reused id is among the nodes; placing the node supersedes the old address.
            table.slot(id).clear(FREED);
            if !table.slot(id).has(USED) {
                released.extend(table.set_address(id, 0));
            }
        }
        let roots = self.roots.iter().map(|(tree, root)| (*tree, *root)).collect();
        Frozen { nodes, roots, released }
    }

    /// Whether a checkpoint would write a node, or release an address.
    pub fn is_changed(&self) -> bool {
        let Table { dirty, freed, released, unswept, .. } = &self.table;
        !(dirty.is_empty() && freed.is_empty() && released.is_empty() && unswept.is_empty())
    }

    /// The nodes that changed since they were last frozen.
    pub fn dirty_nodes(&self) -> Vec<NodeId> {
        let is_dirty = |id: &NodeId| self.table.slot(*id).has(DIRTY);
        self.table.dirty.iter().copied().filter(is_dirty).collect()
    }

    /// Notes that the frozen version of `id` now lies at `address` (not 0). It must stay readable
    /// there until the address is returned as superseded or released. Returns the superseded
    /// address.
    pub fn placed(&mut self, id: NodeId, address: NodeAddress) -> Option<NodeAddress> {
        assert_ne!(address.0, 0, "0 is no address");
        let slot = self.table.slot(id);
        assert!(slot.has(PENDING), "{id} is placed once for each time it was frozen");
        slot.clear(PENDING);
        self.table.pending -= 1;
        self.table.set_address(id, address.0)
    }

    /// Undoes a failed checkpoint. Its unplaced nodes are dirty again, and the next checkpoint
    /// releases its addresses. Placed nodes keep their new address until the next checkpoint
    /// supersedes it.
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

    /// Looks at up to `limit` versions that were superseded while held, by a checkpoint for
    /// example. Continues where the last call stopped, and forgets the versions without a holder.
    /// The call ends at the end of the list; the next one starts over. Returns how often the end
    /// was reached: once this has grown by two, all versions were looked at.
    pub fn forget_superseded(&mut self, limit: usize) -> u64 {
        self.table.superseded.forget(limit)
    }

    /// As [`forget_superseded`](Map::forget_superseded), for all versions at once.
    pub fn forget_all_superseded(&mut self) {
        self.table.superseded.forget_all();
    }

    /// The pages of the durable node table that changed since the last call, in order. Call it once
    /// per checkpoint, when all its nodes are placed; then read [`pages`](Map::pages) and
    /// [`table_page`](Map::table_page) before any other operation on the map.
    pub fn dirty_pages(&mut self) -> Vec<u32> {
        let pages = std::mem::take(&mut self.table.pages_dirty);
        self.table.pages_in_flight.extend(&pages);
        pages.into_iter().collect()
    }

    /// A page of the durable node table, as of the last [`freeze`](Map::freeze) and with the
    /// addresses [`placed`](Map::placed) since: the address of each id, 0 for an id without one.
    /// Page `p` holds the ids from `p * TABLE_PAGE`.
    pub fn table_page(&self, page: u32) -> [u64; TABLE_PAGE] {
        self.table.page(page).each_ref().map(|slot| slot.address)
    }

    /// Pages of the durable node table.
    pub fn pages(&self) -> u32 {
        self.table.page_count()
    }

    /// Loads the map of a checkpoint, with no node in memory.
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

    /// The address of an absent node's image; for a node in memory, of its last placed version.
    /// `None` if the id is free, or was never placed.
    pub fn address(&self, id: NodeId) -> Option<NodeAddress> {
        let slot = self.table.is_used(id).then(|| self.table.slot(id))?;
        (slot.address != 0).then_some(NodeAddress(slot.address))
    }

    /// Takes an absent node into memory. Does nothing if the node is in memory already, or is gone.
    ///
    /// If other operations ran since the image was read, check first that [`address`](Map::address)
    /// has not changed: else the image may be an old version.
    pub fn install(&mut self, id: NodeId, image: &[u8]) -> Result<(), DecodeError> {
        self.install_at(id, image, None, &[])
    }

    /// As [`install`](Map::install), for an image at byte address `at`, with the base bytes that
    /// [`BaseBefore`](crate::BaseBefore) names. A leaf shares its words again with those of its
    /// former sharers that are in memory.
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
            table.grey(id); // Even if black: a leaf can wait for a second visit.
        }
        Ok(())
    }

    /// Has the next checkpoint rewrite an unchanged node, which frees its present place. Does
    /// nothing if the id is free.
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

    /// Keeps any version of the node from being [`evict`](Map::evict)ed once in memory, until
    /// [`unkeep`](Map::unkeep) was called as often. Holding a version instead would make each
    /// change copy it.
    pub fn keep(&mut self, id: NodeId) {
        self.table.keep(id);
    }

    /// Undoes one [`keep`](Map::keep).
    pub fn unkeep(&mut self, id: NodeId) {
        self.table.unkeep(id);
    }

    /// The nodes whose last placed version has an address that `here` accepts. Takes time linear in
    /// the size of the node table.
    pub fn nodes_at(&self, here: impl Fn(NodeAddress) -> bool) -> Vec<NodeId> {
        let lies_here = |id: &NodeId| self.address(*id).is_some_and(&here);
        self.table.ids().filter(lies_here).collect()
    }

    /// The present version of a leaf; `None` if the id is free, or not a leaf's.
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
    /// Decodes an image to a node.
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
