//! The incremental mark, after Dijkstra, Lamport, Martin, Scholten and Steffens (1978): it visits
//! every reachable node once while operations go on. When it ends, the unvisited nodes are gone,
//! and a sweep frees them in steps.
//!
//! White nodes are unknown to the mark, grey nodes wait for a visit, black nodes were visited. A
//! new node is grey. A new edge makes a white child grey. A *leaf that gains references that exist
//! elsewhere* (in a cut, join, merge, split or copy) becomes grey even if it is black, so that the
//! caller sees it again. Fresh writes need no shading: the mark does not judge the segment that
//! they lie in.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::prefetch::{ask_for, prefetch};
use crate::table::{DEAD, GREY, NEW, TOUCHED, Table, USED, VISITED};
use crate::{Edge, Map, Node, NodeId};

/// Prefetch distances: nodes ahead of the visited node, and slots ahead of the shaded slot. The
/// walk does so little work for each node that it would mostly wait for memory. Several processors
/// that scan the leaves of the walk would wait for it, too. The shorter distance helps where few
/// nodes become grey at once.
const NODES_AHEAD: [usize; 2] = [16, 4];
const SLOTS_AHEAD: usize = 8;
/// A sweep looks at this many ids in at most the time of freeing one node.
const IDS_FOR_NODE: usize = 16;

/// A step reserves room for at most this many leaves when it begins.
const LEAVES_AT_ONCE: usize = 1024;

/// The state of a running mark.
#[derive(Default)]
pub(crate) struct Mark {
    pub grey: Vec<NodeId>,
    /// Grey nodes that are not in memory.
    pub waiting: BTreeSet<NodeId>,
    /// Ids freed since the mark began.
    pub quarantine: Vec<NodeId>,
}

impl Mark {
    pub fn bytes(&self) -> usize {
        (self.grey.capacity() + self.quarantine.capacity() + self.waiting.len() * 2)
            * size_of::<NodeId>()
    }
}

/// The result of one step of a mark.
#[derive(Debug, Default)]
pub struct MarkStep {
    /// The visited leaves, each in its version at the visit. Drop them soon: a write copies a leaf
    /// whose version is held.
    pub leaves: Vec<(NodeId, Arc<Node>)>,
    /// Absent nodes: the mark visits them once they are installed.
    pub absent: Vec<NodeId>,
    /// No node is left to visit: [`Map::end_mark`] may follow, with no operation in between.
    pub done: bool,
}

impl Table {
    /// Makes a white node grey.
    pub fn shade(&mut self, id: NodeId) {
        if !self.slot(id).has(VISITED) {
            self.grey(id);
        }
    }

    /// Makes a node grey, even if it is black.
    pub fn grey(&mut self, id: NodeId) {
        let slot = self.slot(id);
        if let Some(mark) = &self.mark
            && !slot.has(GREY)
            && !mark.waiting.contains(&id)
        {
            slot.set(GREY);
            self.mark.as_mut().expect("it is under way").grey.push(id);
        }
    }

    pub fn shade_children(&mut self, id: NodeId) {
        if let Some(node) = self.slot(id).node.clone() {
            self.shade_children_of(&node, &[]);
        }
    }

    /// Shades the children of a node. Skips a child at the same index in `shaded`, the edges of the
    /// node shaded last: the nodes above the leaves of diverged snapshots share most children.
    fn shade_children_of(&mut self, node: &Node, shaded: &[Edge]) {
        let edges = node.edges();
        let white = |at: usize| {
            let child = edges[at].child;
            shaded.get(at).is_none_or(|other| other.child != child).then_some(child)
        };
        for at in (0..edges.len()).rev() {
            if let Some(later) = at.checked_sub(SLOTS_AHEAD).and_then(white) {
                ask_for(std::ptr::from_ref(self.slot(later)).cast());
            }
            if let Some(child) = white(at) {
                self.shade(child);
            }
        }
    }

    /// Notes that a leaf gained references that existed elsewhere before.
    pub fn gained(&mut self, id: NodeId) {
        self.grey(id);
        self.touch(id);
    }

    /// Remembers a leaf for [`Map::take_touched`].
    pub fn touch(&mut self, id: NodeId) {
        let slot = self.slot(id);
        if self.tracking && slot.level() == Some(0) && !slot.has(TOUCHED) {
            slot.set(TOUCHED);
            self.touched.push(id);
        }
    }
}

fn mark_of(table: &mut Table) -> &mut Mark {
    table.mark.as_mut().expect("a mark is stepped after it began and before it ends")
}

impl Map {
    /// Begins a mark: makes the roots grey.
    pub fn begin_mark(&mut self) {
        assert!(self.table.mark.is_none(), "a mark is under way; end or abort it first");
        self.sweep(usize::MAX);
        self.table.mark = Some(Mark::default());
        for root in self.roots.values() {
            self.table.shade(root.edge.child);
        }
    }

    /// Visits up to `limit` nodes. Reports absent nodes again until they are installed.
    pub fn mark_step(&mut self, limit: usize) -> MarkStep {
        self.mark_step_within(limit, limit)
    }

    /// As [`mark_step`](Map::mark_step), but visits at most `leaves` leaves (at least one).
    pub fn mark_step_within(&mut self, limit: usize, leaves: usize) -> MarkStep {
        let table = &mut self.table;
        let (leaves_most, room) = (leaves.max(1), leaves.min(limit).min(LEAVES_AT_ONCE));
        let leaves = Vec::with_capacity(room);
        let mut step = MarkStep { leaves, absent: Vec::new(), done: false };
        let mut last: Option<Arc<Node>> = None;
        for _ in 0..limit {
            if step.leaves.len() == leaves_most {
                break;
            }
            let grey = &mut mark_of(table).grey;
            let Some(id) = grey.pop() else { break };
            let left = grey.len();
            for later in NODES_AHEAD.into_iter().filter_map(|ahead| left.checked_sub(ahead)) {
                let later = mark_of(table).grey[later];
                table.version(later).into_iter().for_each(prefetch);
            }
            let slot = table.slot(id);
            slot.clear(GREY);
            if !slot.has(USED) || slot.has(DEAD) {
                continue;
            }
            let Some(node) = slot.node.clone() else {
                mark_of(table).waiting.insert(id);
                step.absent.push(id);
                continue;
            };
            slot.set(VISITED);
            slot.clear(NEW);
            if node.is_leaf() {
                step.leaves.push((id, node));
            } else {
                table.shade_children_of(&node, last.as_ref().map_or(&[], |last| last.edges()));
                last = Some(node);
            }
        }
        let mark = mark_of(table);
        if mark.grey.is_empty() && step.absent.is_empty() {
            step.absent.extend(mark.waiting.iter().take(limit));
        }
        step.done = mark.grey.is_empty() && mark.waiting.is_empty();
        step
    }

    /// Ends a mark whose last step was `done`: every unvisited node is gone. [`sweep`](Map::sweep)
    /// frees their memory.
    pub fn end_mark(&mut self) {
        let table = &mut self.table;
        let mark = table.mark.as_ref().expect("a mark is ended after it began");
        assert!(
            mark.grey.is_empty() && mark.waiting.is_empty(),
            "a mark is ended right after a step that was done; {} nodes are left to visit",
            mark.grey.len() + mark.waiting.len()
        );
        table.unswept = 1..table.end;
        let mut dead = std::mem::take(&mut table.dead);
        // The mark visited the whole subtree of each dropped node that it visited. The sweep frees
        // the other dropped nodes.
        dead.retain(|id| {
            let doomed = table.is_doomed(*id);
            if doomed {
                table.slot(*id).clear(DEAD);
            }
            !doomed && table.slot(*id).has(DEAD)
        });
        table.dead = dead;
        self.forget_mark();
    }

    /// Frees up to `limit` nodes that the last mark did not visit; true if more may remain. An
    /// unswept node already counts as gone. A checkpoint or the next mark completes the sweep.
    pub fn sweep(&mut self, limit: usize) -> bool {
        let table = &mut self.table;
        let mut freed = 0;
        for _ in 0..limit.saturating_mul(IDS_FOR_NODE) {
            if freed == limit {
                break;
            }
            let Some(id) = table.unswept.next().map(NodeId) else { break };
            let slot = table.slot(id);
            if slot.has(USED) && !slot.has(VISITED) {
                table.release(id);
                freed += 1;
            } else {
                slot.clear(VISITED | NEW);
            }
        }
        !table.unswept.is_empty()
    }

    /// Gives a mark up; frees no node.
    pub fn abort_mark(&mut self) {
        self.sweep(usize::MAX); // For the mark before: until swept, its unvisited nodes are gone.
        for id in self.table.ids() {
            self.table.slot(id).clear(VISITED | NEW | GREY);
        }
        self.forget_mark();
    }

    fn forget_mark(&mut self) {
        if let Some(mark) = self.table.mark.take() {
            self.table.reuse(mark.quarantine);
        }
    }

    /// Starts or stops remembering leaves that are new, or that gain references which existed
    /// elsewhere (not fresh writes). While segments are candidates for reclaim, reclaim checks
    /// these leaves against them. Stopping forgets the leaves not taken.
    pub fn track_leaves(&mut self, on: bool) {
        self.table.tracking = on;
        if !on {
            self.take_touched();
        }
    }

    /// The leaves remembered since the last call, each once. Some may be gone by now.
    pub fn take_touched(&mut self) -> Vec<NodeId> {
        let touched = std::mem::take(&mut self.table.touched);
        touched.iter().for_each(|id| self.table.slot(*id).clear(TOUCHED));
        touched
    }
}
