//! The node table: the present node of each id, its version in memory, and whether it must be
//! written.
//!
//! Every change of a node passes through here ([`Table::alloc`], [`Table::edit`],
//! [`Table::release`]), so that accounts, dirty flags, the mark and the touched list cannot miss
//! one.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::form::unwritten_base_bytes;
use crate::mark::Mark;
use crate::node::Shape;
use crate::superseded::Superseded;
use crate::words::Bases;
use crate::{Absent, Edge, Node, NodeAddress, NodeId};

/// Addresses in one page of the durable node table.
pub const TABLE_PAGE: usize = 512;

/// A node has the slot.
pub(crate) const USED: u16 = 1 << 0;
/// The present version differs from the version on media.
pub(crate) const DIRTY: u16 = 1 << 1;
/// In `Table::dirty`.
pub(crate) const LISTED: u16 = 1 << 2;
/// Frozen for a checkpoint, and not yet placed. Survives the node.
pub(crate) const PENDING: u16 = 1 << 3;
/// Used since the eviction clock last passed.
pub(crate) const RECENT: u16 = 1 << 4;
/// In `Mark::grey`. Survives the node.
pub(crate) const GREY: u16 = 1 << 5;
/// Visited by the mark, or made after it among ids not swept yet. Among these ids, a node without
/// this flag is gone ([`Table::is_doomed`]).
pub(crate) const VISITED: u16 = 1 << 6;
/// Allocated since the mark began; the mark has not handed it out.
pub(crate) const NEW: u16 = 1 << 7;
/// In `Table::touched`. Survives the node.
pub(crate) const TOUCHED: u16 = 1 << 8;
/// In `Table::dead`.
pub(crate) const DEAD: u16 = 1 << 9;
/// In `Table::freed`. Survives the node.
pub(crate) const FREED: u16 = 1 << 10;
/// Flags that outlive the node: they say which lists contain the id.
const STICKY: u16 = LISTED | PENDING | GREY | TOUCHED | FREED;

/// The level of a node before a parent is known.
const LEVEL_UNKNOWN: u8 = u8::MAX;

pub(crate) struct Slot {
    pub node: Option<Arc<Node>>,
    /// The id's address in the durable table; 0 if it has none.
    pub address: u64,
    flags: Cell<u16>,
    level: u8,
}

impl Slot {
    pub fn has(&self, flags: u16) -> bool {
        self.flags.get() & flags != 0
    }

    pub fn set(&self, flags: u16) {
        self.flags.set(self.flags.get() | flags);
    }

    pub fn clear(&self, flags: u16) {
        self.flags.set(self.flags.get() & !flags);
    }

    /// The node's level, if it is known.
    pub fn level(&self) -> Option<u8> {
        (self.level != LEVEL_UNKNOWN).then_some(self.level)
    }
}

const _: () = assert!(size_of::<Slot>() == 24);

type Page = [Slot; TABLE_PAGE];

/// Counts of memory, for [`Usage`](crate::Usage).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    /// Ids in use.
    pub nodes: usize,
    /// Nodes in memory, and the leaves among them.
    pub resident: usize,
    pub leaves: usize,
    /// Bytes of nodes in memory, and of the dirty ones among them; shared words excluded.
    pub bytes: usize,
    pub dirty_bytes: usize,
    /// The most bytes to write for the dirty nodes.
    pub unwritten: usize,
}

impl Accounts {
    /// Counts a new dirty version.
    fn add_dirty(&mut self, node: &Node) {
        self.dirty_bytes += node.bytes();
        self.unwritten += node.unwritten_bytes();
        if let Some(patched) = node.patched()
            && patched.base.add_dirty() == 1
        {
            self.unwritten += unwritten_base_bytes(&patched.base);
        }
    }

    /// Stops counting a dirty version.
    pub fn remove_dirty(&mut self, node: &Node) {
        self.dirty_bytes -= node.bytes();
        self.unwritten -= node.unwritten_bytes();
        if let Some(patched) = node.patched()
            && patched.base.remove_dirty() == 0
        {
            self.unwritten -= unwritten_base_bytes(&patched.base);
        }
    }
}

#[derive(Default)]
pub(crate) struct Table {
    pub shape: Shape,
    pages: Vec<Box<Page>>,
    /// Ids in `1..end` have been used.
    pub end: u32,
    free: Vec<NodeId>,
    pub accounts: Accounts,
    /// The words that leaves share, including those of versions held outside the map.
    pub bases: Bases,

    pub dirty: Vec<NodeId>,
    /// Ids freed since the last freeze that the durable table may still hold.
    pub freed: Vec<NodeId>,
    /// Frozen nodes that are not yet placed.
    pub pending: usize,
    pub pages_dirty: BTreeSet<u32>,
    pub pages_in_flight: BTreeSet<u32>,
    /// Addresses that an abandoned checkpoint was to release.
    pub released: Vec<NodeAddress>,

    pub mark: Option<Mark>,
    /// Ids still to be swept after a mark: unvisited nodes among them are gone.
    pub unswept: Range<u32>,
    pub tracking: bool,
    pub touched: Vec<NodeId>,
    /// Subtrees to free, each by its topmost node.
    pub dead: Vec<NodeId>,

    /// See [`Map::referred_again`](crate::Map::referred_again).
    pub again: u64,

    /// Superseded versions that were still held.
    pub superseded: Superseded,
    /// Position of the eviction clock.
    hand: u32,
    /// Nodes kept from eviction, each with its count of `keep` calls: few nodes, and for a short
    /// time.
    kept: BTreeMap<NodeId, u32>,
}

impl Table {
    pub fn slot(&self, id: NodeId) -> &Slot {
        &self.pages[id.0 as usize / TABLE_PAGE][id.0 as usize % TABLE_PAGE]
    }

    pub fn slot_mut(&mut self, id: NodeId) -> &mut Slot {
        &mut self.pages[id.0 as usize / TABLE_PAGE][id.0 as usize % TABLE_PAGE]
    }

    pub fn has_slot(&self, id: NodeId) -> bool {
        id.0 != 0 && id.0 < self.end
    }

    /// Whether the id, if used, is that of a node that the last mark did not visit.
    pub fn is_doomed(&self, id: NodeId) -> bool {
        self.unswept.contains(&id.0) && !self.slot(id).has(VISITED)
    }

    /// Whether the id names a node.
    pub fn is_used(&self, id: NodeId) -> bool {
        self.has_slot(id) && self.slot(id).has(USED) && !self.is_doomed(id)
    }

    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..self.end).map(NodeId)
    }

    pub fn page_count(&self) -> u32 {
        self.pages.len() as u32
    }

    pub fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    /// Bytes of the table itself, its lists included.
    pub fn bytes(&self) -> usize {
        let ids = self.free.capacity()
            + self.dirty.capacity()
            + self.freed.capacity()
            + self.touched.capacity()
            + self.dead.capacity();
        self.pages.len() * size_of::<Page>()
            + self.pages.capacity() * size_of::<Box<Page>>()
            + ids * size_of::<NodeId>()
            + self.superseded.list_bytes()
            + self.bases.list_bytes()
            + self.mark.as_ref().map_or(0, Mark::bytes)
    }

    // Reading.

    /// The node; marks it as recently used.
    #[inline]
    pub fn get(&self, id: NodeId) -> Result<&Node, Absent> {
        let slot = self.slot(id);
        match &slot.node {
            Some(node) => {
                slot.set(RECENT);
                Ok(node)
            }
            None => {
                assert!(slot.has(USED), "{id} is named by a parent and not in use");
                Err(Absent(id))
            }
        }
    }

    /// The node if it is in memory.
    pub fn resident(&self, id: NodeId) -> Option<&Node> {
        self.version(id).map(Arc::as_ref)
    }

    /// The resident version of the node, if any.
    pub fn version(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.slot(id).node.as_ref()
    }

    /// A node that the operation has found in memory before it changed anything.
    pub fn node(&self, id: NodeId) -> &Node {
        self.resident(id).expect("a node was looked up before the operation began and is gone")
    }

    // Changing.

    fn add_page(&mut self) {
        self.pages_dirty.insert(self.page_count());
        self.push_page(&[0; TABLE_PAGE]);
    }

    /// Adds a page of slots: an absent node for each address, a free slot for each 0.
    pub fn push_page(&mut self, addresses: &[u64; TABLE_PAGE]) {
        let slots: Vec<Slot> = addresses
            .iter()
            .map(|address| Slot {
                node: None,
                address: *address,
                flags: Cell::new(if *address == 0 { 0 } else { USED }),
                level: LEVEL_UNKNOWN,
            })
            .collect();
        let page = slots.into_boxed_slice().try_into();
        self.pages.push(page.unwrap_or_else(|_| unreachable!("one slot for each address")));
    }

    /// Call after pushing the pages of a durable table: makes the unused ids free.
    pub fn loaded(&mut self) {
        self.end = (self.pages.len() * TABLE_PAGE) as u32;
        self.free = self.ids().filter(|id| !self.slot(*id).has(USED)).collect();
        self.free.reverse();
        self.accounts.nodes = self.ids().filter(|id| self.slot(*id).has(USED)).count();
    }

    /// Notes the level of a node from its parent; false if a different level was noted before.
    pub fn learn_level(&mut self, id: NodeId, level: u8) -> bool {
        let slot = self.slot_mut(id);
        let known = slot.level().unwrap_or(level);
        slot.level = known;
        known == level
    }

    /// Gives a new node an id.
    pub fn alloc(&mut self, node: Node) -> NodeId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.end = self.end.max(1);
            if self.end as usize == self.pages.len() * TABLE_PAGE || self.pages.is_empty() {
                self.add_page();
            }
            let id = NodeId(self.end);
            self.end = self.end.checked_add(1).expect("fewer than 2^32 nodes fit in memory");
            id
        });
        let slot = self.slot_mut(id);
        debug_assert!(slot.node.is_none() && !slot.has(USED));
        slot.level = node.level();
        slot.set(USED | RECENT);
        self.accounts.nodes += 1;
        self.put_in(id, Arc::new(node));
        self.mark_dirty(id);
        if self.unswept.contains(&id.0) {
            self.slot(id).set(VISITED);
        }
        if self.mark.is_some() {
            self.slot(id).set(NEW);
            self.shade(id);
        }
        self.touch(id);
        id
    }

    /// Takes an absent node's version into memory.
    pub fn put_in(&mut self, id: NodeId, node: Arc<Node>) {
        self.accounts.resident += 1;
        self.accounts.leaves += usize::from(node.is_leaf());
        self.accounts.bytes += node.bytes();
        self.slot_mut(id).node = Some(node);
    }

    /// Drops the version from memory.
    pub fn take_out(&mut self, id: NodeId) -> usize {
        let slot = self.slot_mut(id);
        let dirty = slot.has(DIRTY);
        let Some(node) = slot.node.take() else { return 0 };
        let bytes = node.bytes();
        self.accounts.resident -= 1;
        self.accounts.leaves -= usize::from(node.is_leaf());
        self.accounts.bytes -= bytes;
        if dirty {
            self.accounts.remove_dirty(&node);
        }
        if Arc::strong_count(&node) > 1 {
            self.superseded.note(&node);
        }
        bytes
    }

    /// Has the next checkpoint write the resident version.
    pub fn mark_dirty(&mut self, id: NodeId) {
        let slot = self.slot(id);
        if slot.has(DIRTY) {
            return;
        }
        slot.set(DIRTY);
        let listed = slot.has(LISTED);
        slot.set(LISTED);
        let Table { pages, accounts, .. } = self;
        let slot = &pages[id.0 as usize / TABLE_PAGE][id.0 as usize % TABLE_PAGE];
        accounts.add_dirty(slot.node.as_ref().expect("only what is in memory gets dirty"));
        if !listed {
            self.dirty.push(id);
        }
    }

    /// Changes the resident version of a node, or a copy of it if it is held elsewhere.
    pub fn edit<R>(&mut self, id: NodeId, change: impl FnOnce(&mut Node) -> R) -> R {
        self.mark_dirty(id);
        let mut node = self.slot_mut(id).node.take().expect("only resident nodes are edited");
        self.leaves_the_accounts(&node);
        if Arc::get_mut(&mut node).is_none() {
            self.superseded.note(&node);
            node = Arc::new(node.to_change());
        }
        let version = Arc::get_mut(&mut node).expect("nobody else can hold it");
        let result = change(version);
        self.edited(id, node);
        result
    }

    /// Replaces the resident version of a node.
    pub fn replace(&mut self, id: NodeId, version: Arc<Node>) {
        self.mark_dirty(id);
        let node = self.slot_mut(id).node.take().expect("only resident nodes are replaced");
        if Arc::strong_count(&node) > 1 {
            self.superseded.note(&node);
        }
        self.leaves_the_accounts(&node);
        self.edited(id, version);
    }

    /// Stops counting a dirty node's resident version, which is about to change or go.
    fn leaves_the_accounts(&mut self, node: &Node) {
        self.accounts.bytes -= node.bytes();
        self.accounts.remove_dirty(node);
    }

    /// Counts the version that follows one that left the accounts.
    fn edited(&mut self, id: NodeId, version: Arc<Node>) {
        self.accounts.bytes += version.bytes();
        self.accounts.add_dirty(&version);
        let slot = self.slot_mut(id);
        slot.node = Some(version);
        slot.set(RECENT);
        if self.mark.is_some() && self.slot(id).has(VISITED) {
            self.shade_children(id);
        }
    }

    /// An owned edge for `edge`: copies the node below if the edge is shared. Every edge above must
    /// be owned, and the node resident.
    pub fn own(&mut self, edge: Edge) -> Edge {
        if !edge.shared {
            return edge;
        }
        self.again += 1;
        self.share(edge.child);
        let copy = self.node(edge.child).copy();
        Edge { child: self.alloc(copy), shared: false, ..edge }
    }

    /// Moves a leaf's words into a base that a copy can share, unless the version is held
    /// elsewhere.
    fn share(&mut self, id: NodeId) {
        let least = self.shape.shared_min();
        let Table { pages, accounts, bases, .. } = self;
        let slot = &mut pages[id.0 as usize / TABLE_PAGE][id.0 as usize % TABLE_PAGE];
        let dirty = slot.has(DIRTY);
        let Some(node) = slot.node.as_mut().and_then(Arc::get_mut) else { return };
        accounts.bytes -= node.bytes();
        if dirty {
            accounts.remove_dirty(node);
        }
        node.share(least, bases);
        accounts.bytes += node.bytes();
        if dirty {
            accounts.add_dirty(node);
        }
    }

    /// Bytes of the words that leaves share.
    pub fn base_bytes(&self) -> usize {
        self.bases.bytes()
    }

    /// Removes a node and frees its id. The caller handles its children.
    pub fn release(&mut self, id: NodeId) {
        self.take_out(id);
        self.accounts.nodes -= 1;
        let slot = self.slot_mut(id);
        debug_assert!(slot.has(USED));
        let handed_out = !slot.has(NEW);
        let durable = slot.address != 0 || slot.has(PENDING);
        slot.level = LEVEL_UNKNOWN;
        slot.clear(!STICKY);
        if durable && !slot.has(FREED) {
            slot.set(FREED);
            self.freed.push(id);
        }
        match &mut self.mark {
            Some(mark) => {
                mark.waiting.remove(&id);
                // The mark may have handed out the id, so the id is not reused until the mark ends.
                // An id that the mark has not handed out is still in `grey`, which suits the old
                // node and a new one.
                if handed_out { mark.quarantine.push(id) } else { self.free.push(id) }
            }
            None => self.free.push(id),
        }
    }

    /// Frees ids after a mark.
    pub fn reuse(&mut self, ids: Vec<NodeId>) {
        self.free.extend(ids.into_iter().rev());
    }

    /// Handles a dropped edge. If it was owned, no other edge leads to its node.
    pub fn drop_edge(&mut self, edge: Edge) {
        if !edge.shared {
            debug_assert!(!self.slot(edge.child).has(DEAD));
            self.slot(edge.child).set(DEAD);
            self.dead.push(edge.child);
        }
    }

    /// Frees at most `limit` nodes of dropped subtrees; true if more remain.
    pub fn free_some(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            let Some(id) = self.dead.pop() else { return false };
            let slot = self.slot(id);
            slot.clear(DEAD);
            if let Some(node) = slot.node.clone() {
                node.edges().iter().for_each(|edge| self.drop_edge(*edge));
                drop(node);
                self.release(id);
            } else if slot.level() == Some(0) {
                self.release(id);
            }
            // The subtree below an absent inner node is not worth a read: the mark frees it.
        }
        !self.dead.is_empty()
    }

    /// Keeps a node in memory until [`unkeep`](Self::unkeep) was called as often.
    pub fn keep(&mut self, id: NodeId) {
        *self.kept.entry(id).or_default() += 1;
    }

    /// Undoes one [`keep`](Self::keep).
    pub fn unkeep(&mut self, id: NodeId) {
        let count = self.kept.get_mut(&id).expect("a node is unkept that nobody keeps");
        *count -= 1;
        if *count == 0 {
            self.kept.remove(&id);
        }
    }

    /// Drops clean versions from memory, least recently used first (second chance), until `bytes`
    /// are free; returns the bytes freed.
    pub fn evict(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        // Two rounds: the first may only remove second chances.
        for _ in 0..2 * u64::from(self.end) {
            if freed >= bytes {
                break;
            }
            self.hand = if self.hand + 1 >= self.end { 1 } else { self.hand + 1 };
            let id = NodeId(self.hand);
            let slot = self.slot(id);
            let Some(node) = &slot.node else { continue };
            let held = Arc::strong_count(node) > 1
                || (!self.kept.is_empty() && self.kept.contains_key(&id));
            if slot.has(DIRTY | PENDING) || slot.address == 0 || held {
                continue;
            }
            if slot.has(RECENT) {
                slot.clear(RECENT);
            } else {
                let before = self.base_bytes();
                freed += self.take_out(id);
                freed += before.saturating_sub(self.base_bytes());
            }
        }
        freed
    }
}
