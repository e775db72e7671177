//! The new addresses of relocated blocks.

use mjolnir_units::Pba;

use crate::{Chunks, word};

/// Moves of physical extents (sorted, without overlap, contiguous ones merged), and the extents
/// that these moves empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocations {
    moves: Vec<Move>,
    /// First block and length of each extent, sorted.
    emptied: Vec<(u64, u64)>,
    /// The fate of each block; `None` if the moves lie too far apart for a table.
    table: Option<Chunks<u64>>,
    /// The first block that moved or is to be emptied, and the end of the last. Most lookups lie
    /// outside this span and need no other test.
    span: (u64, u64),
}

/// The fate of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was not to be moved.
    Stays,
    /// It should have moved, since its extent is to be emptied, and did not.
    Left,
    /// It moved to this address.
    Moved(Pba),
}

/// The table's entries for blocks that did not move. The entry of a moved block is its new address
/// plus 1.
pub(crate) const STAYS: u64 = 0;
pub(crate) const LEFT: u64 = u64::MAX;
/// The most blocks in a chunk of the table, as a power of two.
const CHUNK_BITS_MAX: u32 = 12;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: u64,
    blocks: u64,
    to: u64,
}

/// Collects moves in any order.
#[derive(Clone, Debug, Default)]
pub struct RelocationsBuilder {
    moves: Vec<Move>,
    emptied: Vec<(u64, u64)>,
}

impl RelocationsBuilder {
    /// Adds the move of `blocks` blocks from `from` to `to`.
    pub fn add(&mut self, from: Pba, blocks: u64, to: Pba) -> &mut Self {
        let fits = |at: Pba| at <= Pba::MAX && blocks <= Pba::MAX.0 - at.0 + 1;
        assert!(fits(from) && fits(to), "{blocks} blocks from {from} to {to} are out of range");
        if blocks > 0 {
            self.moves.push(Move { from: from.0, blocks, to: to.0 });
        }
        self
    }

    /// Notes that `blocks` blocks from `from` are to be emptied.
    /// [`Map::repoint`](crate::Map::repoint) reports a reference to such a block that did not move.
    /// No block may be given twice.
    pub fn empties(&mut self, from: Pba, blocks: u64) -> &mut Self {
        assert!(from <= Pba::MAX && blocks <= Pba::MAX.0 - from.0 + 1, "{from} is out of range");
        if blocks > 0 {
            self.emptied.push((from.0, blocks));
        }
        self
    }

    /// Adds all moves and emptied extents of another builder.
    pub fn append(&mut self, other: RelocationsBuilder) -> &mut Self {
        self.moves.extend(other.moves);
        self.emptied.extend(other.emptied);
        self
    }

    /// Reserves room for `moves` more moves.
    pub fn reserve(&mut self, moves: usize) {
        self.moves.reserve(moves);
    }

    /// Builds the relocations. Panics if a block was moved twice.
    pub fn build(mut self) -> Relocations {
        // The moves of each victim come in order: a stable sort only merges these runs. It takes as
        // much memory again, or half as much if that is more than 8 MB.
        self.moves.sort_by_key(|m| m.from);
        self.moves.dedup_by(|next, last| {
            let end = last.from + last.blocks;
            assert!(end <= next.from, "{} is moved twice", Pba(next.from));
            let follows = end == next.from && last.to + last.blocks == next.to;
            last.blocks += if follows { next.blocks } else { 0 };
            follows
        });
        let moves = self.moves;
        self.emptied.sort_unstable();
        let extents = moves.iter().map(|m| (m.from, m.blocks)).chain(self.emptied.iter().copied());
        let first = extents.clone().map(|(from, _)| from).min().unwrap_or(0);
        let end = extents.map(|(from, blocks)| from + blocks).max().unwrap_or(0);
        let table = table_of(&moves, &self.emptied);
        Relocations { moves, emptied: self.emptied, table, span: (first, end) }
    }
}

fn table_of(moves: &[Move], emptied: &[(u64, u64)]) -> Option<Chunks<u64>> {
    // If extents are emptied, most moves lie within them.
    let moved = moves.iter().map(|m| (m.from, m.blocks));
    let extents: Vec<_> = match emptied {
        [] => moved.collect(),
        _ => emptied
            .iter()
            .copied()
            .chain(moved.filter(|(at, blocks)| !holds(emptied, *at, *blocks)))
            .collect(),
    };
    let mut table = Chunks::new(&extents, CHUNK_BITS_MAX, STAYS)?;
    for (at, blocks) in emptied {
        table.fill(*at, *blocks, LEFT);
    }
    for m in moves {
        (m.from..m.from + m.blocks).zip(m.to + 1..).for_each(|(at, to)| table.fill(at, 1, to));
    }
    Some(table)
}

/// Whether one of the sorted extents holds all of `blocks` blocks from `at`.
fn holds(extents: &[(u64, u64)], at: u64, blocks: u64) -> bool {
    let before = extents.partition_point(|(from, _)| *from <= at);
    extents[..before].last().is_some_and(|(from, length)| at + blocks <= from + length)
}

impl Relocations {
    /// Begins a collection of moves.
    pub fn builder() -> RelocationsBuilder {
        RelocationsBuilder::default()
    }

    /// Whether nothing moved.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// The new address of the block at `pba`, and how many blocks from it on moved contiguously.
    pub fn lookup(&self, pba: Pba) -> Option<(Pba, u64)> {
        let found = self.moves[..self.after(pba.0)].last()?;
        let skip = pba.0 - found.from;
        (skip < found.blocks).then(|| (Pba(found.to + skip), found.blocks - skip))
    }

    /// The fate of the one block at `pba`.
    #[inline]
    pub(crate) fn fate(&self, pba: Pba) -> Fate {
        match &self.table {
            Some(table) => match table.get(pba.0) {
                STAYS => Fate::Stays,
                LEFT => Fate::Left,
                to => Fate::Moved(Pba(to - 1)),
            },
            None => self.find_fate(pba),
        }
    }

    fn find_fate(&self, pba: Pba) -> Fate {
        if let Some((to, _)) = self.lookup(pba) {
            return Fate::Moved(to);
        }
        match holds(&self.emptied, pba.0, 1) {
            true => Fate::Left,
            false => Fate::Stays,
        }
    }

    /// For each block [`STAYS`], [`LEFT`] or the new address plus 1, if there is a table.
    #[inline]
    pub(crate) fn table(&self) -> Option<&Chunks<u64>> {
        self.table.as_ref()
    }

    /// The new address if all of `blocks` blocks from `pba` moved contiguously; `Some(None)` if all
    /// stay. `None` if their fates differ, or some should have moved and did not.
    pub(crate) fn fate_of_run(&self, pba: Pba, blocks: u64) -> Option<Option<Pba>> {
        match self.lookup(pba) {
            Some((to, moved)) => (moved >= blocks).then_some(Some(to)),
            None => (!self.touches(pba, blocks) && self.first_left(pba, blocks).is_none())
                .then_some(None),
        }
    }

    /// All moves, by source: from, blocks, to.
    pub fn iter(&self) -> impl Iterator<Item = (Pba, u64, Pba)> {
        self.moves.iter().map(|m| (Pba(m.from), m.blocks, Pba(m.to)))
    }

    /// Whether some of `blocks` blocks from `pba` may have moved, or should have.
    #[inline]
    pub(crate) fn is_near(&self, pba: Pba, blocks: u64) -> bool {
        pba.0 < self.span.1
            && pba.0 + blocks > self.span.0
            && self.table.as_ref().is_none_or(|table| table.is_near(pba.0, blocks))
    }

    /// Whether a leaf's word refers to a block that did not stay. For a word of several blocks:
    /// whether it may.
    #[inline]
    pub(crate) fn may_touch(&self, entry: u64) -> bool {
        match (word::pba(entry), word::blocks(entry)) {
            (Some(at), 1) => self.fate(at) != Fate::Stays,
            (Some(at), blocks) => self.is_near(at, blocks),
            (None, _) => false,
        }
    }

    /// Whether any of `blocks` blocks from `pba` moved.
    pub fn touches(&self, pba: Pba, blocks: u64) -> bool {
        if !self.is_near(pba, blocks) {
            return false;
        }
        self.lookup(pba).is_some() || self.next_move(pba).is_some_and(|at| at.0 < pba.0 + blocks)
    }

    /// The first of `blocks` blocks from `pba` that should have moved and did not.
    pub(crate) fn first_left(&self, pba: Pba, blocks: u64) -> Option<Pba> {
        let end = pba.0 + blocks;
        let behind = self.emptied.partition_point(|(from, length)| from + length <= pba.0);
        for (from, length) in self.emptied[behind..].iter().take_while(|(from, _)| *from < end) {
            let mut at = pba.0.max(*from);
            while at < end.min(from + length) {
                match self.lookup(Pba(at)) {
                    Some((_, moved)) => at += moved,
                    None => return Some(Pba(at)),
                }
            }
        }
        None
    }

    /// The first block behind `pba` where a move begins.
    pub(crate) fn next_move(&self, pba: Pba) -> Option<Pba> {
        self.moves.get(self.after(pba.0)).map(|m| Pba(m.from))
    }

    /// Moves that begin at or before `at`.
    fn after(&self, at: u64) -> usize {
        self.moves.partition_point(|m| m.from <= at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn every_block_is_found_where_its_move_put_it() {
        let mut builder = Relocations::builder();
        builder.add(Pba(30), 5, Pba(103)).add(Pba(10), 3, Pba(100)).add(Pba(20), 0, Pba(1));
        builder.add(Pba(13), 2, Pba(103)).add(Pba(15), 1, Pba(7));
        let moves = builder.build();
        assert_eq!(moves.iter().count(), 3, "contiguous ones are one");
        assert_eq!(moves.lookup(Pba(9)), None);
        assert_eq!(moves.lookup(Pba(10)), Some((Pba(100), 5)));
        assert_eq!(moves.lookup(Pba(14)), Some((Pba(104), 1)));
        assert_eq!(moves.lookup(Pba(15)), Some((Pba(7), 1)));
        assert_eq!(moves.lookup(Pba(16)), None);
        assert_eq!(moves.lookup(Pba(34)), Some((Pba(107), 1)));
        assert_eq!(moves.lookup(Pba(35)), None);
        assert!(moves.touches(Pba(16), 15) && !moves.touches(Pba(16), 14));
        let same = |at: u64| match moves.lookup(Pba(at)) {
            Some((to, _)) => moves.fate(Pba(at)) == Fate::Moved(to),
            None => moves.fate(Pba(at)) == Fate::Stays,
        };
        assert!((0..500).all(same));
    }

    #[test]
    fn fates_are_told_however_far_apart_and_what_is_left_is_found() {
        let mut random = Pcg64::seed_from_u64(4);
        for spread in [1, 100, 1 << 18, 1 << 33] {
            let mut naive = BTreeMap::new();
            let mut builder = Relocations::builder();
            for zone in 0..8 {
                let start = zone * 1000 * spread;
                if zone % 3 > 0 {
                    builder.empties(Pba(start), 700);
                    naive.extend((start..start + 700).map(|at| (at, Fate::Left)));
                }
                let mut at = start;
                while at < start + 600 {
                    let blocks = 1 + random.next_u64() % 20;
                    if random.next_u64().is_multiple_of(2) {
                        let to = random.next_u64() % (1 << 40);
                        builder.add(Pba(at), blocks, Pba(to));
                        naive.extend((0..blocks).map(|i| (at + i, Fate::Moved(Pba(to + i)))));
                    }
                    at += blocks;
                }
            }
            let moves = builder.build();
            assert_eq!(moves.table.is_some(), spread < 1 << 33, "{spread}");
            let entries = moves.table.as_ref().map_or(0, |table| table.bytes() / 8);
            assert!(entries < 1 << 20, "{entries} for a spread of {spread}");
            for zone in 0..9 {
                for at in (zone * 1000 * spread).saturating_sub(100)..zone * 1000 * spread + 1000 {
                    let expected = naive.get(&at).copied().unwrap_or(Fate::Stays);
                    assert_eq!(moves.fate(Pba(at)), expected, "block {at}, spread {spread}");
                    let left = naive.range(at..at + 30).find(|(_, fate)| **fate == Fate::Left);
                    let left = left.map(|(at, _)| Pba(*at));
                    assert_eq!(moves.first_left(Pba(at), 30), left, "block {at}, spread {spread}");
                }
            }
        }
        assert_eq!(Relocations::default().fate(Pba(0)), Fate::Stays);
        assert_eq!(Relocations::builder().build().fate(Pba(7)), Fate::Stays);
    }

    #[test]
    fn no_word_that_refers_to_what_moves_is_passed_over() {
        let mut chance = Pcg64::seed_from_u64(11);
        let mut below = |limit: u64| chance.next_u64() % limit;
        for _ in 0..2_000 {
            let mut builder = Relocations::builder();
            let victims: std::collections::BTreeSet<u64> = (0..3).map(|_| below(40)).collect();
            for victim in &victims {
                builder.empties(Pba(300 * victim), 300);
                builder.add(Pba(300 * victim + below(250)), 1 + below(50), Pba(1 << 30));
            }
            let moves = builder.build();
            let words: Vec<u64> = (0..below(60))
                .map(|_| match below(8) {
                    0 => word::hole(1 + below(1 << 40)),
                    1 => word::mapped(Pba(below(12_000)), 1 + below(word::EXTENT_BLOCKS_MAX)),
                    _ => word::mapped(Pba(below(12_000)), 1 + below(3)),
                })
                .collect();
            let near = |entry: &u64| {
                let (at, blocks) = (word::pba(*entry)?, word::blocks(*entry));
                (at.0..at.0 + blocks).find(|at| victims.contains(&(at / 300)))
            };
            let mut touched = words.iter().filter(|entry| near(entry).is_some());
            assert!(touched.all(|entry| moves.may_touch(*entry)));
        }
    }
}
