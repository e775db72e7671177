//! Repointing leaves after their blocks were relocated.

use mjolnir_units::Pba;

use crate::{Absent, LEAF_WORDS_HARD, Map, Node, NodeId, Relocations, leaf, word};

impl Map {
    /// Replaces every reference of a leaf into `moves` by the place where the block went, in a new
    /// version under the same id: whoever shares the leaf need not know. Returns the blocks
    /// repointed; 0 if the leaf is gone or refers to none.
    ///
    /// A leaf may have more than [`LEAF_MAX`](crate::LEAF_MAX) words afterwards.
    ///
    /// # Panics
    ///
    /// If it would have more than [`LEAF_WORDS_HARD`], which is more than can be stored: some
    /// millions of runs of one leaf were torn apart at once. To go on would lose blocks.
    pub fn repoint(&mut self, leaf: NodeId, moves: &Relocations) -> Result<u64, Absent> {
        let Some(node) = self.leaf(leaf)? else { return Ok(0) };
        let touched = |entry: &u64| match (word::pba(*entry), word::blocks(*entry)) {
            (Some(at), 1) => moves.lookup_one(at).is_some(),
            (Some(at), blocks) => moves.touches(at, blocks),
            (None, _) => false,
        };
        let Some(first) = node.entries().iter().position(touched) else { return Ok(0) };
        let (words, repointed) = translate(node.entries(), first, moves);
        assert!(
            words.len() <= LEAF_WORDS_HARD,
            "{leaf} would have {} words after relocation; relocate in longer runs",
            words.len()
        );
        drop(node);
        self.table.edit(leaf, |node| *node = Node::leaf(words));
        Ok(repointed)
    }
}

/// The words of a leaf with every reference into `moves` replaced, and how many blocks were. The
/// words before `first` refer to none.
fn translate(entries: &[u64], first: usize, moves: &Relocations) -> (Vec<u64>, u64) {
    let mut words = Vec::with_capacity(entries.len());
    words.extend_from_slice(&entries[..first]);
    let mut repointed = 0;
    for entry in &entries[first..] {
        let Some(at) = word::pba(*entry) else {
            leaf::push(&mut words, *entry);
            continue;
        };
        let (mut at, mut rest) = (at.0, word::blocks(*entry));
        if rest == 1 {
            let to = moves.lookup_one(Pba(at));
            repointed += u64::from(to.is_some());
            leaf::push(&mut words, to.map_or(*entry, |to| word::mapped(to, 1)));
            continue;
        }
        if !moves.is_near(Pba(at), rest) {
            leaf::push(&mut words, *entry);
            continue;
        }
        while rest > 0 {
            let (to, length) = match moves.lookup(Pba(at)) {
                Some((to, moved)) => {
                    repointed += moved.min(rest);
                    (to, moved.min(rest))
                }
                None => {
                    let next = moves.next_move(Pba(at)).map_or(u64::MAX, |next| next.0);
                    (Pba(at), rest.min(next - at))
                }
            };
            leaf::push(&mut words, word::mapped(to, length));
            (at, rest) = (at + length, rest - length);
        }
    }
    words.shrink_to_fit();
    (words, repointed)
}
