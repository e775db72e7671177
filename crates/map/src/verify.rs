//! Checks the map's invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::form::unwritten_base_bytes;
use crate::table::{DEAD, DIRTY, LISTED, PENDING, USED};
use crate::{BLOCKS_MAX, Edge, INNER_MAX, LEAF_WORDS_HARD, Map, Node, NodeId, word};

/// What the walk over all nodes has found about an id.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Edges to this node from reachable nodes.
    edges: u32,
    /// Reached through owned edges only.
    owned: bool,
    visited: bool,
}

impl Map {
    /// Checks all invariants over the nodes in memory. Takes linear time; for tests and for
    /// checking a store.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_accounts()?;
        let mut seen = vec![Seen::default(); self.pages() as usize * crate::TABLE_PAGE];
        let mut open = Vec::new();
        for (tree, root) in &self.roots {
            let place = format!("the root of tree {}", tree.0);
            if root.edge.blocks > BLOCKS_MAX {
                return Err(format!("{place} has {} blocks", root.edge.blocks));
            }
            self.verify_edge(&root.edge, root.level, &place)?;
            follow(&mut seen, &mut open, root.edge, true);
        }
        while let Some(id) = open.pop() {
            let Some(node) = self.table.resident(id) else { continue };
            let owned = seen[id.0 as usize].owned;
            for edge in node.edges() {
                follow(&mut seen, &mut open, *edge, owned);
            }
        }
        for id in self.table.ids() {
            let Seen { edges, owned, visited } = seen[id.0 as usize];
            let slot = self.table.slot(id);
            if owned && edges != 1 {
                return Err(format!("{id} is owned and has {edges} edges"));
            }
            if visited && slot.has(DEAD) {
                return Err(format!("{id} is reachable and to be freed"));
            }
            if let Some(node) = self.table.resident(id)
                && !self.table.is_doomed(id)
            {
                if slot.level() != Some(node.level()) {
                    return Err(format!("{id} has level {}, not {:?}", node.level(), slot.level()));
                }
                verify_node(id, node)?;
                for edge in node.edges() {
                    self.verify_edge(edge, node.level() - 1, &id.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Checks that an edge's child is in use and has the level and the length that the edge says.
    fn verify_edge(&self, edge: &Edge, level: u8, from: &str) -> Result<(), String> {
        let id = edge.child;
        if !self.table.is_used(id) {
            return Err(format!("{from} leads to {id}, which is not in use"));
        }
        if self.table.slot(id).level().is_some_and(|known| known != level) {
            return Err(format!("{from} leads to {id}, which is not of level {level}"));
        }
        match self.table.resident(id) {
            Some(node) if node.blocks != edge.blocks => {
                Err(format!("{from} gives {id} {} blocks, and it has {}", edge.blocks, node.blocks))
            }
            _ => Ok(()),
        }
    }

    fn verify_accounts(&self) -> Result<(), String> {
        let mut found = crate::table::Accounts::default();
        let (mut bases, mut unwritten) = (BTreeMap::new(), BTreeSet::new());
        let mut pending = 0;
        for id in self.table.ids() {
            let slot = self.table.slot(id);
            found.nodes += usize::from(slot.has(USED));
            pending += usize::from(slot.has(PENDING));
            if slot.has(DIRTY) && !(slot.has(LISTED) && slot.node.is_some()) {
                return Err(format!("{id} is dirty, and not listed or not in memory"));
            }
            let Some(node) = &slot.node else {
                if slot.has(USED) && slot.address == 0 {
                    return Err(format!("{id} is neither in memory nor on media"));
                }
                continue;
            };
            if !slot.has(USED) {
                return Err(format!("{id} is free and in memory"));
            }
            found.resident += 1;
            found.leaves += usize::from(node.is_leaf());
            found.bytes += node.bytes();
            if let Some(patched) = node.patched() {
                bases.insert(Arc::as_ptr(&patched.base), patched.base.bytes());
            }
            if slot.has(DIRTY) {
                found.dirty_bytes += node.bytes();
                found.unwritten += node.unwritten_bytes();
                if let Some(patched) = node.patched()
                    && unwritten.insert(Arc::as_ptr(&patched.base))
                {
                    found.unwritten += unwritten_base_bytes(&patched.base);
                }
            }
        }
        let (bases, account) = (bases.values().sum::<usize>(), self.table.base_bytes());
        if bases > account {
            return Err(format!("accounts say {account} bytes in common, and there are {bases}"));
        }
        if found != self.table.accounts || pending != self.table.pending {
            return Err(format!(
                "accounts say {:?} and {} to be placed, and there are {found:?} and {pending}",
                self.table.accounts, self.table.pending
            ));
        }
        Ok(())
    }
}

fn follow(seen: &mut [Seen], open: &mut Vec<NodeId>, edge: Edge, owned: bool) {
    let seen = &mut seen[edge.child.0 as usize];
    seen.edges += 1;
    seen.owned |= owned && !edge.shared;
    if !seen.visited {
        seen.visited = true;
        open.push(edge.child);
    }
}

fn verify_node(id: NodeId, node: &Node) -> Result<(), String> {
    let sum = if node.is_leaf() {
        let words = &node.entries().whole()[..];
        if let Some(at) = words.iter().position(|w| !word::is_valid(*w, BLOCKS_MAX)) {
            return Err(format!("{id} has word {:#x} at {at}", words[at]));
        }
        if let Some(at) = words.windows(2).position(|w| word::join(w[0], w[1]).is_some()) {
            return Err(format!("{id} has two words at {at} that should be one"));
        }
        if words.len() > LEAF_WORDS_HARD {
            return Err(format!("{id} has {} words", words.len()));
        }
        word::sum(words)
    } else {
        let edges = node.edges();
        if edges.is_empty() || edges.len() > INNER_MAX {
            return Err(format!("{id} has {} edges", edges.len()));
        }
        if let Some(edge) = edges.iter().find(|edge| edge.blocks == 0) {
            return Err(format!("{id} leads to {} for no blocks", edge.child));
        }
        edges.iter().map(|edge| edge.blocks).sum()
    };
    if sum != node.blocks {
        return Err(format!("{id} has {} blocks, its entries {sum}", node.blocks));
    }
    Ok(())
}
