//! Repoints leaves after their blocks were relocated.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::node::Body;
use crate::relocations::{Fate, LEFT, STAYS};
use crate::repatch::Bases;
use crate::{Absent, Chunks, LEAF_WORDS_HARD, Map, Node, NodeId, Relocations, Twins};
use crate::{differing, leaf, word};

/// The result of [`Map::repoint`] for a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repointed {
    /// The number of blocks repointed.
    pub blocks: u64,
    /// Blocks that the leaf refers to and that should have moved but did not: the first such block
    /// of each word.
    pub left: Vec<Pba>,
}

/// Repoints leaves, one after another.
pub struct Repointer<'a> {
    moves: &'a Relocations,
    /// The leaves repointed as a whole. `None` where few leaves have a twin: holding two versions
    /// of each would be useless.
    twins: Option<Twins<Twin>>,
    bases: Bases,
    /// Reused buffers: the indices of a leaf's words to look at, and their replacements.
    near: Vec<u32>,
    edits: Vec<(u32, u64)>,
    /// Whether many words of the last leaf were replaced, which predicts the same for the next.
    many: bool,
}

/// A leaf before and after its repointing, word for word.
struct Twin {
    before: Arc<Node>,
    after: Arc<Node>,
    blocks: u64,
}

impl<'a> Repointer<'a> {
    /// Replaces references into `moves`. `twins`: whether many leaves differ from others in a few
    /// words only, as those of diverged snapshots do.
    pub fn new(moves: &'a Relocations, twins: bool) -> Self {
        let twins = twins.then(Twins::default);
        Repointer {
            moves,
            twins,
            bases: Bases::default(),
            near: Vec::new(),
            edits: Vec::new(),
            many: false,
        }
    }

    /// Collects the replacements of a few words of a leaf in `edits`; returns how many blocks
    /// moved. `None` if the words are not few, or if one must be torn apart or joined.
    fn edit_words(&mut self, words: &[u64]) -> Option<u64> {
        let table = self.moves.table()?;
        let near = table.near_words(words, &mut self.near);
        if near.len() > words.len() / FEW {
            self.many = true;
            return None;
        }
        self.edits.clear();
        // The index of the word last replaced, and its new value.
        let (mut last, mut blocks) = ((u32::MAX, 0), 0);
        for number in near.iter().copied() {
            let at = number as usize;
            let Some(to) = fate_of_word(words[at], table, self.moves)? else { continue };
            let new = word::mapped(to, word::blocks(words[at]));
            let before = match number.checked_sub(1) {
                Some(before) if before == last.0 => Some(last.1),
                Some(before) => Some(words[before as usize]),
                None => None,
            };
            let joins = |left: Option<u64>, right: Option<u64>| {
                left.zip(right).is_some_and(|(a, b)| word::join(a, b).is_some())
            };
            // The word behind may be replaced, too: then the loop tests the pair again.
            if joins(before, Some(new)) || joins(Some(new), words.get(at + 1).copied()) {
                return None;
            }
            self.edits.push((number, new));
            blocks += word::blocks(new);
            last = (number, new);
        }
        Some(blocks)
    }

    /// The words of a leaf after its relocation, as far as [`translate_whole`] can tell.
    fn translate_whole(&self, words: &[u64]) -> Option<(Vec<u64>, Repointed)> {
        let twins = self.twins.as_ref();
        let twin =
            twins.and_then(|twins| twins.find(words.into(), |twin: &Twin| twin.before.entries()));
        let alike = twin.and_then(|twin| translate_like(words, twin, self.moves));
        alike.or_else(|| translate_whole(words, self.moves))
    }
}

impl Map {
    /// Replaces every reference of a leaf into `moves` by the block's new address. The new version
    /// has the same id, so the leaf's parents stay unchanged. Does nothing if the leaf is gone or
    /// has no such reference.
    ///
    /// A leaf may have more than [`LEAF_MAX`](crate::LEAF_MAX) words afterwards. A leaf that would
    /// have more words than an image holds does not change, and the result lists its blocks that
    /// should have moved as left.
    pub fn repoint(&mut self, leaf: NodeId, moves: &Relocations) -> Result<Repointed, Absent> {
        self.repoint_by(&mut Repointer::new(moves, false), leaf)
    }

    /// As [`repoint`](Map::repoint), for one leaf of many.
    pub fn repoint_by(
        &mut self,
        to: &mut Repointer<'_>,
        leaf: NodeId,
    ) -> Result<Repointed, Absent> {
        let Some(before) = self.leaf(leaf)? else { return Ok(Repointed::default()) };
        if let Some(patched) = before.patched() {
            let Some((base, edits, blocks)) = to.bases.translate(patched, to.moves) else {
                return self.repoint_runs(leaf, before, to.moves);
            };
            drop(before);
            if blocks > 0 {
                self.table.edit(leaf, |node| node.repatch(base, edits));
            }
            return Ok(Repointed { blocks, left: Vec::new() });
        }
        let words = &before.entries().whole()[..];
        if to.twins.is_none()
            && !to.many
            && let Some(blocks) = to.edit_words(words)
        {
            drop(before);
            if blocks > 0 {
                self.table.edit(leaf, |node| {
                    let words = node.words_mut();
                    to.edits.iter().for_each(|(number, new)| words[*number as usize] = *new);
                });
            }
            return Ok(Repointed { blocks, left: Vec::new() });
        }
        let Some((after, found)) = to.translate_whole(words) else {
            return self.repoint_runs(leaf, before, to.moves);
        };
        let replaced = words.iter().zip(&after).filter(|(before, now)| before != now);
        to.many = replaced.count() > words.len() / FEW;
        if found.blocks == 0 {
            return Ok(found);
        }
        match &mut to.twins {
            None => {
                drop(before);
                self.table.edit(leaf, |node| *node.words_mut() = after);
            }
            Some(twins) => {
                let key = words[0];
                let after = Arc::new(Node { blocks: before.blocks(), body: Body::Leaf(after) });
                self.table.replace(leaf, after.clone());
                let twin = Twin { before: before.clone(), after, blocks: found.blocks };
                twins.keep(key, twin);
            }
        }
        Ok(found)
    }

    /// As `repoint`, where words may be torn apart or joined.
    fn repoint_runs(
        &mut self,
        leaf: NodeId,
        node: Arc<Node>,
        moves: &Relocations,
    ) -> Result<Repointed, Absent> {
        let before = node.entries().whole();
        let (words, found) = translate(&before, moves);
        if found.blocks == 0 {
            return Ok(found);
        }
        if words.len() > LEAF_WORDS_HARD {
            let runs =
                before.iter().filter_map(|word| Some((word::pba(*word)?, word::blocks(*word))));
            let stays = |&(at, blocks): &(Pba, u64)| {
                !moves.touches(at, blocks) && moves.first_left(at, blocks).is_none()
            };
            let left = runs.filter(|run| !stays(run)).map(|(at, _)| at).collect();
            return Ok(Repointed { blocks: 0, left });
        }
        drop(before);
        drop(node);
        self.table.edit(leaf, |node| *node = Node::leaf(words));
        Ok(found)
    }
}

/// As [`translate_whole`], for a leaf with a translated twin: translates only the words that
/// differ. `None` if the leaves have different numbers of words, or a word is torn apart or joined.
fn translate_like(
    words: &[u64],
    twin: &Twin,
    moves: &Relocations,
) -> Option<(Vec<u64>, Repointed)> {
    let (before, after) = (twin.before.entries().whole(), twin.after.entries().whole());
    if words.len() != before.len() {
        return None;
    }
    let (mut out, mut blocks, mut whole) = (after.to_vec(), twin.blocks, true);
    differing(words.into(), before[..].into(), |at, piece, instead_of| {
        let here = at..at + piece.len();
        match translate_whole(piece, moves) {
            None => whole = false,
            Some((translated, found)) => {
                let gone = instead_of.iter().zip(&after[here.clone()]).filter(|(b, a)| b != a);
                blocks -= gone.map(|(word, _)| word::blocks(*word)).sum::<u64>();
                blocks += found.blocks;
                out[here.clone()].copy_from_slice(&translated);
                // Tests the borders between this piece and the twin's words.
                let joins = |at: usize| {
                    at > 0 && at < out.len() && word::join(out[at - 1], out[at]).is_some()
                };
                whole &= !joins(here.start) && !joins(here.end);
            }
        }
    });
    whole.then_some((out, Repointed { blocks, left: Vec::new() }))
}

/// For runs of at most this many blocks, cells are read one by one; longer runs are searched for.
const SHORT: u64 = 8;
/// Words are replaced one by one if at most one in this many may refer to a moved block.
const FEW: usize = 4;

/// The new address if all blocks of a word moved contiguously; `Some(None)` if all stay. `None` if
/// their fates differ, or some should have moved and did not.
#[inline]
pub(crate) fn fate_of_word(
    word: u64,
    table: &Chunks<u64>,
    moves: &Relocations,
) -> Option<Option<Pba>> {
    let Some(at) = word::pba(word) else { return Some(None) };
    match word::blocks(word) {
        blocks if blocks <= SHORT => short_fate(table, at, blocks),
        blocks if moves.is_near(at, blocks) => moves.fate_of_run(at, blocks),
        _ => Some(None),
    }
}

/// The words of a leaf with every reference into `moves` replaced, and the result. `None` if a word
/// is torn apart, can be joined, or refers to a block that should have moved and did not.
pub(crate) fn translate_whole(
    entries: &[u64],
    moves: &Relocations,
) -> Option<(Vec<u64>, Repointed)> {
    let table = moves.table()?;
    let mut words = Vec::with_capacity(entries.len());
    let (mut moved, mut left) = (0, false);
    // The address at which a word could be joined with the word before.
    let (mut next, mut joins) = (u64::MAX, false);
    for entry in entries {
        let (mut word, mut blocks) = (*entry, 1);
        if word::is_single(word) {
            let to = table.get(word);
            left |= to == LEFT;
            moved += u64::from(to != STAYS);
            word = if to == STAYS { word } else { to.wrapping_sub(1) };
        } else if !word::is_hole(word) {
            blocks = word::blocks(word);
            if let Some(to) = fate_of_word(word, table, moves)? {
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

/// As [`Relocations::fate_of_run`], for a few blocks.
#[inline]
fn short_fate(table: &Chunks<u64>, at: Pba, blocks: u64) -> Option<Option<Pba>> {
    let to = table.get(at.0);
    if to == STAYS {
        return (1..blocks).all(|i| table.get(at.0 + i) == STAYS).then_some(None);
    }
    let follows = to != LEFT && (1..blocks).all(|i| table.get(at.0 + i) == to + i);
    follows.then_some(Some(Pba(to - 1)))
}

/// The words of a leaf with every reference into `moves` replaced, and the result.
pub(crate) fn translate(entries: &[u64], moves: &Relocations) -> (Vec<u64>, Repointed) {
    let mut words = Vec::with_capacity(entries.len());
    let mut found = Repointed::default();
    let mut left = entries;
    loop {
        // Words that stay are already in normal form, except at the border with words that change.
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

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn replacing_few_words_gives_what_translating_word_by_word_does() {
        let mut chance = Pcg64::seed_from_u64(9);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut replaced, mut neighbours, mut given_up) = (0, 0, 0);
        for round in 0..20_000 {
            let mut builder = Relocations::builder();
            for victim in 0..1 + round % 9 {
                // By turns: all blocks move in order, in short runs, or some that should move do
                // not.
                let (from, to) = (1000 * victim, (1 << 30) + 5000 * victim);
                let run = [200, 7, 31][(round % 3) as usize];
                if round % 4 == 3 {
                    // The end moves to before the beginning.
                    builder.add(Pba(from), 100, Pba(to + 100)).add(Pba(from + 100), 100, Pba(to));
                } else {
                    for at in (0..200).step_by(run as usize) {
                        let to = Pba(to + at * (1 + round % 2));
                        builder.add(Pba(from + at), run.min(200 - at), to);
                    }
                }
                builder.empties(Pba(from), 200 + round % 3 / 2);
            }
            let moves = builder.build();
            let mut repointer = Repointer::new(&moves, false);
            let mut words = Vec::new();
            for _ in 0..200 {
                let victim = 1000 * below(1 + round % 9);
                let next = match below(40) {
                    0 => word::mapped(Pba(victim + below(201)), 1),
                    1 => word::mapped(Pba(victim + below(190)), 1 + below(10)),
                    2 => word::mapped(Pba((1 << 30) + below(20_000)), 1 + below(80)),
                    3 => word::hole(1 + below(9)),
                    _ => word::mapped(Pba(600 + below(2) * 100_000 + below(90)), 1 + below(2)),
                };
                leaf::push(&mut words, next);
                // Blocks side by side in a victim, the second half first.
                if below(60) == 0 {
                    let at = victim + 2 + below(90);
                    leaf::push(&mut words, word::mapped(Pba(at + 100), 1));
                    leaf::push(&mut words, word::mapped(Pba(at + 7 * below(2)), 1));
                    leaf::push(&mut words, word::mapped(Pba(victim + 199), 1));
                    leaf::push(&mut words, word::mapped(Pba(victim), 1));
                }
            }
            let Some(blocks) = repointer.edit_words(&words) else {
                given_up += 1;
                continue;
            };
            let (expected, found) = translate(&words, &moves);
            for (number, new) in &repointer.edits {
                words[*number as usize] = *new;
            }
            neighbours += repointer.edits.windows(2).filter(|e| e[0].0 + 1 == e[1].0).count();
            assert_eq!((words, blocks), (expected, found.blocks), "round {round}");
            assert_eq!(found.left, [], "round {round}");
            replaced += repointer.edits.len();
        }
        assert!(
            replaced > 50_000 && neighbours > 1000 && given_up > 1000,
            "{replaced} words, {neighbours} beside another one; {given_up} leaves given up"
        );
    }

    #[test]
    fn what_a_twin_says_is_what_translating_word_by_word_gives() {
        let mut chance = Pcg64::seed_from_u64(8);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut alike, mut asked) = (0, 0);
        for round in 0..20_000 {
            let mut builder = Relocations::builder();
            for victim in 0..4 {
                let to = (1 << 30) + victim * 5000 + below(2) * (1 << 20);
                builder.add(Pba(1000 * victim), 200 - below(2) * below(90), Pba(to));
                if below(3) > 0 {
                    builder.empties(Pba(1000 * victim), 200);
                }
            }
            let moves = builder.build();
            let mut word = || match below(12) {
                0 => word::hole(1 + below(5)),
                1..=7 => word::mapped(Pba(below(5000)), 1),
                8 | 9 => word::mapped(Pba(1000 * below(5) + below(190)), 1 + below(4)),
                _ => word::mapped(Pba((1 << 30) + below(20_000)), 1 + below(2)),
            };
            let mut before = Vec::new();
            (0..100).for_each(|_| leaf::push(&mut before, word()));
            let mut words = before.clone();
            for _ in 0..round % 4 {
                let at = (word() % words.len() as u64) as usize;
                words[at] = word();
            }
            if words.windows(2).any(|pair| word::join(pair[0], pair[1]).is_some()) {
                continue;
            }
            let Some((after, found)) = translate_whole(&before, &moves) else { continue };
            let version = |words: Vec<u64>| Arc::new(Node::leaf(words));
            let twin =
                Twin { before: version(before), after: version(after), blocks: found.blocks };
            asked += 1;
            if let Some(quick) = translate_like(&words, &twin, &moves) {
                assert_eq!(quick, translate(&words, &moves), "round {round}");
                alike += 1;
            }
        }
        assert!(asked > 1000 && alike > asked / 2 && alike < asked, "{alike} of {asked}");
    }

    #[test]
    fn translating_at_once_gives_what_translating_word_by_word_does() {
        let mut chance = Pcg64::seed_from_u64(3);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let (mut whole, mut runs) = (0, 0);
        for round in 0..20_000 {
            let mut builder = Relocations::builder();
            for victim in 0..4 {
                let (from, kept) = (1000 * victim, round % 3 == 0);
                let mut at = from;
                while at < from + 120 {
                    let blocks = 1 + below(12);
                    // Some rounds have gaps, some have blocks that should have moved.
                    if below(8) > 0 || round % 2 == 0 {
                        builder.add(Pba(at), blocks, Pba((1 << 30) + at + below(2) * 4000));
                    }
                    at += blocks;
                }
                if !kept {
                    builder.empties(Pba(from), 200);
                }
            }
            let moves = builder.build();
            let mut words = Vec::new();
            for _ in 0..1 + below(12) {
                let next = match below(10) {
                    0 => word::hole(1 + below(5)),
                    1..=5 => word::mapped(Pba(below(5000)), 1),
                    6..=8 => word::mapped(Pba(1000 * below(5) + below(130)), 1 + below(4)),
                    _ => word::mapped(Pba(below(5000)), 1 + below(40)),
                };
                leaf::push(&mut words, next);
            }
            if let Some((quick, found)) = translate_whole(&words, &moves) {
                let (slow, expected) = translate(&words, &moves);
                assert_eq!((quick, &found), (slow, &expected), "round {round}");
                whole += 1;
                runs += u64::from(found.blocks > words.len() as u64);
            }
        }
        assert!(whole > 5000 && runs > 300, "{whole} at once, {runs} of them of longer runs");
    }
}
