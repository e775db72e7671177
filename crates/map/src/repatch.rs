//! Repointing leaves that have words in common: these once for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::relocate::{fate_of_word, translate_whole};
use crate::words::{Base, Edit, Patched};
use crate::{Chunks, Relocations, word};

/// Bases that are remembered where few leaves have words in common, or memory is short.
const BASES_FEW: usize = 16;
/// Bases that are remembered else: as many leaves of a volume may be written to between two snapshots,
/// and their bases still be known as those of the next come by.
const BASES_MANY: usize = 256;

/// A base before and after it was repointed, word for word.
struct Moved {
    before: Arc<Base>,
    /// The same one if nothing moved.
    after: Arc<Base>,
    blocks: u64,
    /// Words of which some blocks fared differently from others, or should have moved and did not.
    /// What no leaf has any more is not live, so it may be among them.
    torn: Vec<u32>,
    /// Words that could be joined with the next now.
    joining: Vec<u32>,
}

impl Moved {
    fn new(before: Arc<Base>, table: &Chunks<u64>, moves: &Relocations) -> Moved {
        if let Some((words, found)) = translate_whole(before.words(), moves) {
            let moved = found.blocks > 0;
            let after = if moved { before.with(words) } else { before.clone() };
            return Moved { before, after, blocks: found.blocks, torn: vec![], joining: vec![] };
        }
        let mut words = before.words().to_vec();
        let (mut blocks, mut torn) = (0, Vec::new());
        for (at, word) in (0..).zip(&mut words) {
            match fate_of_word(*word, table, moves) {
                None => torn.push(at),
                Some(None) => {}
                Some(Some(to)) => {
                    blocks += word::blocks(*word);
                    *word = word::mapped(to, word::blocks(*word));
                }
            }
        }
        let pairs = (0..).zip(words.windows(2));
        let joining = pairs.filter(|(_, pair)| word::join(pair[0], pair[1]).is_some());
        let joining = joining.map(|(at, _)| at).collect();
        let after = before.with(words);
        Moved { before, after, blocks, torn, joining }
    }

    /// Whether the base says what becomes of all words that a leaf does not have in place of its.
    fn suits(&self, leaf: &Patched) -> bool {
        let edited = |at: u32| leaf.edits.binary_search_by_key(&at, |edit| edit.at).is_ok();
        self.torn.iter().all(|at| edited(*at))
            && self.joining.iter().all(|at| edited(*at) || edited(at + 1))
    }
}

/// Bases that were repointed lately.
pub(crate) struct Bases {
    /// By where they are in memory; held, so that none takes the place of another.
    moved: BTreeMap<usize, Moved>,
    most: usize,
    /// Room for the edits of a leaf.
    edits: Vec<Edit>,
}

impl Bases {
    /// `many` tells whether many leaves have words in common.
    pub fn new(many: bool) -> Bases {
        let most = if many { BASES_MANY } else { BASES_FEW };
        Bases { moved: BTreeMap::new(), most, edits: Vec::new() }
    }

    /// What a leaf is to hold after its relocation, and how many blocks moved; none if it takes more
    /// than to replace words.
    pub fn translate(
        &mut self,
        leaf: &Patched,
        moves: &Relocations,
    ) -> Option<(Arc<Base>, &[Edit], u64)> {
        let table = moves.table()?;
        let place = Arc::as_ptr(&leaf.base).addr();
        if !self.moved.contains_key(&place) {
            if self.moved.len() >= self.most {
                self.moved.clear();
            }
            self.moved.insert(place, Moved::new(leaf.base.clone(), table, moves));
        }
        let moved = &self.moved[&place];
        if !moved.suits(leaf) {
            return None;
        }
        let (before, after) = (moved.before.words(), moved.after.words());
        let mut blocks = moved.blocks;
        self.edits.clear();
        for edit in &leaf.edits {
            let at = edit.at as usize;
            if before[at] != after[at] {
                blocks -= word::blocks(before[at]);
            }
            let to = fate_of_word(edit.word, table, moves)?;
            let word = to.map_or(edit.word, |to| {
                blocks += word::blocks(edit.word);
                word::mapped(to, word::blocks(edit.word))
            });
            let ahead = at.checked_sub(1).map(|ahead| match self.edits.last() {
                Some(edit) if edit.at as usize == ahead => edit.word,
                _ => after[ahead],
            });
            // The one behind may have an edit, too: then it is looked at with that one.
            let behind = after.get(at + 1).copied();
            let joins = |left: Option<u64>, right: Option<u64>| {
                left.zip(right).is_some_and(|(a, b)| word::join(a, b).is_some())
            };
            if joins(ahead, Some(word)) || joins(Some(word), behind) {
                return None;
            }
            self.edits.push(Edit { at: edit.at, word });
        }
        Some((moved.after.clone(), &self.edits, blocks))
    }
}
