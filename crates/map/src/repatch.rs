//! Repoints leaves that share words: the shared words once for all leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::relocate::{fate_of_word, translate, translate_whole};
use crate::words::{Base, Edit, Patched};
use crate::{Chunks, LEAF_MAX, Relocations, leaf, word};

/// At least this many bases are remembered before unused ones are forgotten.
const MANY: usize = 64;

/// Marks a word of a base that was torn apart or joined with another.
const NOWHERE: u32 = u32::MAX;

/// A base before and after it was repointed.
struct Moved {
    before: Arc<Base>,
    /// `None` if no block moved.
    after: Option<Arc<Base>>,
    blocks: u64,
    /// Words with blocks that should have moved and did not. A word that no leaf has any more is
    /// not live, so it may be among them.
    left: Vec<u32>,
    /// The new index of each word, if some were torn apart or joined; `None` if all indices stay.
    places: Option<Vec<u32>>,
}

impl Moved {
    fn new(before: Arc<Base>, table: &Chunks<u64>, moves: &Relocations) -> Moved {
        if let Some((words, found)) = translate_whole(before.words(), moves) {
            let after = (found.blocks > 0).then(|| before.with(words));
            return Moved { before, after, blocks: found.blocks, left: vec![], places: None };
        }
        let mut words = Vec::with_capacity(before.words().len());
        let mut places = Vec::with_capacity(before.words().len());
        let (mut blocks, mut left) = (0, Vec::new());
        for (at, word) in (0..).zip(before.words()) {
            let place = words.len();
            let pieces = match fate_of_word(*word, table, moves) {
                Some(to) => {
                    blocks += to.map_or(0, |_| word::blocks(*word));
                    leaf::push(
                        &mut words,
                        to.map_or(*word, |to| word::mapped(to, word::blocks(*word))),
                    );
                    1
                }
                None => {
                    let (pieces, found) = translate(&[*word], moves);
                    blocks += found.blocks;
                    left.extend((!found.left.is_empty()).then_some(at));
                    pieces.iter().for_each(|piece| leaf::push(&mut words, *piece));
                    pieces.len()
                }
            };
            let joined = words.len() < place + pieces;
            if joined && let Some(last) = places.last_mut() {
                *last = NOWHERE;
            }
            places.push(if joined || pieces > 1 { NOWHERE } else { place as u32 });
        }
        words.shrink_to_fit();
        let after = Some(before.with(words));
        Moved { before, after, blocks, left, places: Some(places) }
    }

    /// Whether the leaf replaces every word in `left` by an edit.
    fn suits(&self, leaf: &Patched) -> bool {
        let edited = |at: u32| leaf.edits.binary_search_by_key(&at, |edit| edit.at).is_ok();
        self.left.iter().all(|at| edited(*at))
    }

    /// The new index of a word; `None` if it was torn apart or joined.
    fn place(&self, at: u32) -> Option<u32> {
        let Some(places) = &self.places else { return Some(at) };
        Some(places[at as usize]).filter(|place| *place != NOWHERE)
    }
}

/// The repointed bases, kept while some of their leaves are not repointed.
#[derive(Default)]
pub(crate) struct Bases {
    /// By address in memory. Holding a base keeps another from taking its address.
    moved: BTreeMap<usize, Moved>,
    /// A new base triggers a scan of all at this many.
    many: usize,
    /// Room for the edits of a leaf.
    edits: Vec<Edit>,
}

impl Bases {
    /// The base and edits of a leaf after its relocation, and how many blocks moved. `None` if an
    /// edited word is torn apart or joined, a block should have moved and did not, or the base
    /// would be larger than a leaf should be.
    pub fn translate(
        &mut self,
        leaf: &Patched,
        moves: &Relocations,
    ) -> Option<(Arc<Base>, &[Edit], u64)> {
        let table = moves.table()?;
        let place = Arc::as_ptr(&leaf.base).addr();
        if !self.moved.contains_key(&place) {
            if self.moved.len() >= self.many {
                self.moved.retain(|_, moved| Arc::strong_count(&moved.before) > 1);
                self.many = MANY.max(2 * self.moved.len());
            }
            self.moved.insert(place, Moved::new(leaf.base.clone(), table, moves));
        }
        let moved = &self.moved[&place];
        if !moved.suits(leaf) {
            return None;
        }
        let base = moved.after.as_ref().unwrap_or(&moved.before);
        if base.words().len() > LEAF_MAX {
            return None;
        }
        let (before, after) = (moved.before.words(), base.words());
        let mut blocks = moved.blocks;
        self.edits.clear();
        for edit in &leaf.edits[..] {
            let place = moved.place(edit.at)?;
            let at = place as usize;
            let replaced = before[edit.at as usize];
            if replaced != after[at] {
                blocks -= word::blocks(replaced);
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
            // The word behind may have an edit, too: that edit then tests the pair.
            let behind = after.get(at + 1).copied();
            let joins = |left: Option<u64>, right: Option<u64>| {
                left.zip(right).is_some_and(|(a, b)| word::join(a, b).is_some())
            };
            if joins(ahead, Some(word)) || joins(Some(word), behind) {
                return None;
            }
            self.edits.push(Edit { at: place, word });
        }
        Some((base.clone(), &self.edits, blocks))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_units::Pba;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::displaced::Displaced;
    use crate::words;

    fn patched_of(words: Vec<u64>) -> Patched {
        Patched { base: words::Bases::default().of(words, None), edits: Box::default() }
    }

    #[test]
    fn what_is_held_in_common_is_translated_as_each_leaf_alone_would_be() {
        let mut chance = Pcg64::seed_from_u64(4);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut alike, mut torn, mut given_up) = (0, 0, 0);
        for round in 0..3_000 {
            let mut builder = Relocations::builder();
            for victim in 0..4 {
                let (mut at, from) = (0, 1000 * victim);
                while at < 200 {
                    // Some rounds have whole runs, some have gaps, some have blocks that should
                    // have moved.
                    let blocks = (1 + below(30 + round % 2 * 300)).min(200 - at);
                    if below(9) > 0 || round % 3 == 0 {
                        let to = (1 << 30) + (from + at) * 3 + below(2) * (1 << 20);
                        builder.add(Pba(from + at), blocks, Pba(to));
                    }
                    at += blocks;
                }
                if round % 5 > 0 {
                    builder.empties(Pba(from), 200);
                }
            }
            let moves = builder.build();
            let mut random = |most: u64| match below(12) {
                0 => word::hole(1 + below(most)),
                1..=3 => word::mapped(Pba((1 << 30) + below(9_000)), 1 + below(most)),
                _ => word::mapped(Pba(1000 * below(5) + below(190)), 1 + below(most)),
            };
            let mut words = Vec::new();
            (0..80).for_each(|_| leaf::push(&mut words, random(1 + round % 4)));
            let total = word::sum(&words);
            let base = patched_of(words);
            let mut bases = Bases::default();
            for _ in 0..6 {
                let mut patched = base.clone();
                for _ in 0..12 {
                    let (at, word) = (random(1) % total, random(1 + round % 4));
                    patched.replace(total, at, word, 16, &mut Displaced::default());
                }
                let whole = patched.view().whole().into_owned();
                let (expected, found) = translate(&whole, &moves);
                let before = bases.moved.len();
                match bases.translate(&patched, &moves) {
                    None => given_up += 1,
                    Some((base, edits, blocks)) => {
                        let now = Patched { base, edits: edits.into() };
                        assert_eq!(now.view().whole(), expected, "round {round}");
                        assert_eq!(blocks, found.blocks, "round {round}");
                        assert_eq!(found.left, [], "round {round}");
                        assert!(now.view().seek(total, total - 1).0 == expected.len() - 1);
                        alike += 1;
                    }
                }
                assert!(bases.moved.len() == 1 && before <= 1, "once for all of them");
            }
            torn += usize::from(bases.moved.values().any(|moved| moved.places.is_some()));
        }
        let all = format!("{alike} alike, {given_up} not; {torn} torn");
        assert!(alike > 8_000 && given_up > 1_000 && torn > 1_000, "{all}");
    }

    #[test]
    fn bases_that_no_leaf_has_any_more_are_forgotten() {
        let mut builder = Relocations::builder();
        builder.add(Pba(0), 1, Pba(1 << 30));
        let moves = builder.build();
        let mut bases = Bases::default();
        let leaf = |at: u64| patched_of(vec![word::mapped(Pba(at), 1)]);
        let kept: Vec<Patched> = (0..100).map(|at| leaf(at * 2)).collect();
        kept.iter().for_each(|leaf| drop(bases.translate(leaf, &moves)));
        for at in 0..10_000 {
            bases.translate(&leaf(at * 2), &moves);
        }
        let known = |leaf: &Patched| bases.moved.contains_key(&Arc::as_ptr(&leaf.base).addr());
        assert!(kept.iter().all(known) && bases.moved.len() <= 2 * kept.len());
    }
}
