//! Repointing leaves after their blocks were relocated.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::relocations::{Fate, LEFT, STAYS};
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
        let Some((words, found)) = translate_whole(node.entries(), moves) else {
            return self.repoint_runs(leaf, node, moves);
        };
        drop(node);
        if found.blocks > 0 {
            self.table.edit(leaf, |node| *node.words_mut() = words);
        }
        Ok(found)
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

/// The words of a leaf with every reference into `moves` replaced, and what was found; none if some
/// are torn apart, can be joined, or refer to what should have moved and did not.
///
/// What becomes of a block is read from a table and not asked: which of the words of a random map are
/// to change cannot be foreseen.
fn translate_whole(entries: &[u64], moves: &Relocations) -> Option<(Vec<u64>, Repointed)> {
    let table = moves.table()?;
    let mut words = Vec::with_capacity(entries.len());
    let (mut moved, mut left) = (0, false);
    // The address that the word before could be joined with.
    let (mut next, mut joins) = (u64::MAX, false);
    for entry in entries {
        let (mut word, mut blocks) = (*entry, 1);
        if word::is_single(word) {
            let to = table.get(word);
            left |= to == LEFT;
            moved += u64::from(to != STAYS);
            word = if to == STAYS { word } else { to.wrapping_sub(1) };
        } else if let Some(at) = word::pba(word) {
            blocks = word::blocks(word);
            if moves.is_near(at, blocks)
                && let Some(to) = moves.fate_of_run(at, blocks)?
            {
                moved += blocks;
                word = word::mapped(to, blocks);
            }
        } else {
            words.push(word);
            next = u64::MAX;
            continue;
        }
        words.push(word);
        let at = word & Pba::MAX.0;
        joins |= at == next;
        next = at + blocks;
    }
    let found = Repointed { blocks: moved, left: Vec::new() };
    (!joins && !left).then_some((words, found))
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
