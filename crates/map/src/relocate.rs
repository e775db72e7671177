//! Repointing leaves after their blocks were relocated.

use std::sync::Arc;

use mjolnir_units::Pba;

use crate::node::Body;
use crate::relocations::{Fate, LEFT, STAYS};
use crate::repatch::Bases;
use crate::{Absent, Chunks, LEAF_WORDS_HARD, Map, Node, NodeId, Relocations, Twins};
use crate::{differing, leaf, word};

/// What [`Map::repoint`] found in a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repointed {
    /// Blocks that lie elsewhere now.
    pub blocks: u64,
    /// Blocks that should have moved and did not, though the leaf refers to them: the first of each
    /// of its words that has some.
    pub left: Vec<Pba>,
}

/// Repoints one leaf after another.
pub struct Repointer<'a> {
    moves: &'a Relocations,
    /// Leaves that were repointed as a whole; none where few have a twin: to hold two versions of each
    /// would be for nothing.
    twins: Option<Twins<Twin>>,
    bases: Bases,
    /// Room for the words of a leaf to look at, and for what is to become of them.
    near: Vec<u32>,
    edits: Vec<(u32, u64)>,
    /// Whether many words of the last leaf were replaced: so it will be with the next.
    many: bool,
}

/// A leaf before and after it was repointed, word for word.
struct Twin {
    before: Arc<Node>,
    after: Arc<Node>,
    blocks: u64,
}

impl<'a> Repointer<'a> {
    /// Replaces references into `moves`. `twins` tells whether many leaves differ from others in a few
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

    /// What is to become of a few words of a leaf, in `edits`, and how many blocks moved; none if they
    /// are not few, or it takes more than to replace them.
    fn edit_words(&mut self, words: &[u64]) -> Option<u64> {
        let table = self.moves.table()?;
        let near = table.near_words(words, &mut self.near);
        if near.len() > words.len() / FEW {
            self.many = true;
            return None;
        }
        self.edits.clear();
        // The number of the word last replaced, and what it is now.
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
            // The one behind may be replaced, too: then it is looked at again with this one.
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
    /// Replaces every reference of a leaf into `moves` by the place where the block went, in a new
    /// version under the same id: whoever shares the leaf need not know. Nothing is done if the
    /// leaf is gone or refers to none.
    ///
    /// A leaf may have more than [`LEAF_MAX`](crate::LEAF_MAX) words afterwards. If it would have more than
    /// an image has room for, it stays as it is, and all of its blocks are left that should have moved.
    pub fn repoint(&mut self, leaf: NodeId, moves: &Relocations) -> Result<Repointed, Absent> {
        self.repoint_by(&mut Repointer::new(moves, false), leaf)
    }

    /// As [`repoint`](Map::repoint), for one of many leaves.
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

    /// The same where words may be torn apart or joined.
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

/// As [`translate_whole`], for a leaf most words of which are those of one that was translated: none
/// if that does not say enough.
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
                // At its borders with what is the twin's.
                let joins = |at: usize| {
                    at > 0 && at < out.len() && word::join(out[at - 1], out[at]).is_some()
                };
                whole &= !joins(here.start) && !joins(here.end);
            }
        }
    });
    whole.then_some((out, Repointed { blocks, left: Vec::new() }))
}

/// Blocks of a run at most for which its cells are read one by one: more are searched for.
const SHORT: u64 = 8;
/// Words are replaced one by one if at most one in so many may refer to what moves.
const FEW: usize = 4;

/// Where all that a word refers to went, or that it stays; none if some of it fared differently, or
/// should have moved and did not.
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

/// The words of a leaf with every reference into `moves` replaced, and what was found; none if some
/// are torn apart, can be joined, or refer to what should have moved and did not.
pub(crate) fn translate_whole(
    entries: &[u64],
    moves: &Relocations,
) -> Option<(Vec<u64>, Repointed)> {
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

/// The words of a leaf with every reference into `moves` replaced, and what was found.
pub(crate) fn translate(entries: &[u64], moves: &Relocations) -> (Vec<u64>, Repointed) {
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
                // By turns: all of it goes on in order, in short runs, or some of it should and did not.
                let (from, to) = (1000 * victim, (1 << 30) + 5000 * victim);
                let run = [200, 7, 31][(round % 3) as usize];
                if round % 4 == 3 {
                    // What was the end comes to lie before what was the beginning.
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
                // What lies side by side in a victim, the second half first.
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
                    // In some rounds gaps, in some what should have moved.
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
