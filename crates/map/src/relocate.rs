//! Repointing leaves after their blocks were relocated.

use mjolnir_units::Pba;

use crate::relocations::Fate;
use crate::{Absent, LEAF_WORDS_HARD, Map, Node, NodeId, Relocations, leaf, word};

/// What [`Map::repoint`] found in a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repointed {
    /// Blocks that lie elsewhere now.
    pub blocks: u64,
    /// A block that should have moved and did not: the leaf refers to it still.
    pub left: Option<Pba>,
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
        let concerns = |entry: &u64| match (word::pba(*entry), word::blocks(*entry)) {
            (Some(at), 1) => moves.fate(at) != Fate::Stays,
            (Some(at), blocks) => moves.is_near(at, blocks),
            (None, _) => false,
        };
        let Some(first) = node.entries().iter().position(concerns) else {
            return Ok(Repointed::default());
        };
        let (words, found) = translate(node.entries(), first, moves);
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

/// The words of a leaf with every reference into `moves` replaced, and what was found. The words
/// before `first` are of no concern.
fn translate(entries: &[u64], first: usize, moves: &Relocations) -> (Vec<u64>, Repointed) {
    let mut words = Vec::with_capacity(entries.len());
    words.extend_from_slice(&entries[..first]);
    let mut found = Repointed::default();
    for entry in &entries[first..] {
        let Some(at) = word::pba(*entry) else {
            leaf::push(&mut words, *entry);
            continue;
        };
        let (mut at, mut rest) = (at, word::blocks(*entry));
        if rest == 1 {
            let to = match moves.fate(at) {
                Fate::Moved(to) => Some(to),
                Fate::Left => {
                    found.left = found.left.or(Some(at));
                    None
                }
                Fate::Stays => None,
            };
            found.blocks += u64::from(to.is_some());
            leaf::push(&mut words, to.map_or(*entry, |to| word::mapped(to, 1)));
            continue;
        }
        if !moves.is_near(at, rest) {
            leaf::push(&mut words, *entry);
            continue;
        }
        found.left = found.left.or_else(|| moves.first_left(at, rest));
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
