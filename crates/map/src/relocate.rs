//! Repointing leaves after their blocks were relocated.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::relocations::Fate;
use crate::{Absent, LEAF_WORDS_HARD, Map, Node, NodeId, Relocations, leaf, word};

/// What [`Map::repoint`] found in a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repointed {
    /// Blocks that lie elsewhere now.
    pub blocks: u64,
    /// Blocks that should have moved and did not, though the leaf refers to them: the first of each
    /// of its words that has some.
    pub left: Vec<Pba>,
}

impl Map {
    /// Replaces every reference of a leaf into `moves` by the place where the block went, in a new
    /// version under the same id: whoever shares the leaf need not know. Nothing is done if the
    /// leaf is gone or refers to none.
    ///
    /// A leaf may have more than [`LEAF_MAX`](crate::LEAF_MAX) words afterwards.
    ///
    /// # Panics
    ///
    /// If it would have more than [`LEAF_WORDS_HARD`], which is more than can be stored: some
    /// millions of runs of one leaf were torn apart at once. To go on would lose blocks.
    pub fn repoint(&mut self, leaf: NodeId, moves: &Relocations) -> Result<Repointed, Absent> {
        let Some(node) = self.leaf(leaf)? else { return Ok(Repointed::default()) };
        match single_changes(node.entries(), moves) {
            Some((changes, found)) => {
                drop(node);
                if !changes.is_empty() {
                    self.table.edit(leaf, |node| {
                        let words = node.words_mut();
                        changes.into_iter().for_each(|(index, word)| words[index] = word);
                    });
                }
                Ok(found)
            }
            None => self.repoint_runs(leaf, node, moves),
        }
    }

    /// The same where words may be torn apart or joined.
    fn repoint_runs(
        &mut self,
        leaf: NodeId,
        node: Arc<Node>,
        moves: &Relocations,
    ) -> Result<Repointed, Absent> {
        let (words, found) = translate(node.entries(), moves);
        if found.blocks == 0 {
            return Ok(found);
        }
        assert!(
            words.len() <= LEAF_WORDS_HARD,
            "{leaf} would have {} words after relocation; relocate in longer runs",
            words.len()
        );
        drop(node);
        self.table.edit(leaf, |node| *node = Node::leaf(words));
        Ok(found)
    }
}

/// The words that change, by their index, and what was found; none if not only words of one block
/// change each for another, so that all else could stay as it is.
fn single_changes(entries: &[u64], moves: &Relocations) -> Option<(Vec<(usize, u64)>, Repointed)> {
    let mut changes: Vec<(usize, u64)> = Vec::new();
    let mut found = Repointed::default();
    for (index, entry) in entries.iter().enumerate() {
        let Some(at) = word::pba(*entry) else { continue };
        let blocks = word::blocks(*entry);
        if blocks > 1 {
            if moves.touches(at, blocks) {
                return None;
            }
            found.left.extend(moves.first_left(at, blocks));
            continue;
        }
        match moves.fate(at) {
            Fate::Stays => {}
            Fate::Left => found.left.push(at),
            Fate::Moved(to) => {
                found.blocks += 1;
                changes.push((index, word::mapped(to, 1)));
            }
        }
    }
    let mut last = None;
    for (place, (index, new)) in changes.iter().enumerate() {
        let before = match last {
            Some((before, word)) if before + 1 == *index => Some(word),
            _ => index.checked_sub(1).map(|before| entries[before]),
        };
        let next = changes.get(place + 1).is_none_or(|(next, _)| *next != index + 1);
        let after = entries.get(index + 1).filter(|_| next);
        if before.is_some_and(|before| word::join(before, *new).is_some())
            || after.is_some_and(|after| word::join(*new, *after).is_some())
        {
            return None;
        }
        last = Some((*index, *new));
    }
    Some((changes, found))
}

/// The words of a leaf with every reference into `moves` replaced, and what was found.
fn translate(entries: &[u64], moves: &Relocations) -> (Vec<u64>, Repointed) {
    let mut words = Vec::with_capacity(entries.len());
    let mut found = Repointed::default();
    let mut left = entries;
    loop {
        // What stays is in normal form already, but for its border with what does not.
        let still = left.iter().position(|entry| moves.may_touch(*entry)).unwrap_or(left.len());
        let (same, others) = left.split_at(still);
        if let Some((first, rest)) = same.split_first() {
            leaf::push(&mut words, *first);
            words.extend_from_slice(rest);
        }
        let Some((entry, next)) = others.split_first() else { break };
        left = next;
        let Some(at) = word::pba(*entry) else { continue };
        let (mut at, mut rest) = (at, word::blocks(*entry));
        if rest == 1 {
            let to = match moves.fate(at) {
                Fate::Moved(to) => Some(to),
                Fate::Left => {
                    found.left.push(at);
                    None
                }
                Fate::Stays => None,
            };
            found.blocks += u64::from(to.is_some());
            leaf::push(&mut words, to.map_or(*entry, |to| word::mapped(to, 1)));
            continue;
        }
        found.left.extend(moves.first_left(at, rest));
        if !moves.touches(at, rest) {
            leaf::push(&mut words, *entry);
            continue;
        }
        while rest > 0 {
            let (to, length) = match moves.lookup(at) {
                Some((to, moved)) => {
                    found.blocks += moved.min(rest);
                    (to, moved.min(rest))
                }
                None => {
                    let next = moves.next_move(at).map_or(u64::MAX, |next| next.0);
                    (at, rest.min(next - at.0))
                }
            };
            leaf::push(&mut words, word::mapped(to, length));
            (at, rest) = (at.plus(length), rest - length);
        }
    }
    words.shrink_to_fit();
    (words, found)
}
