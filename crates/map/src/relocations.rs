//! Where relocated blocks went.

use mjolnir_units::Pba;

/// Moves of physical extents: sorted, without overlap, contiguous ones merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocations {
    moves: Vec<Move>,
    dense: Dense,
    /// All that moved lies from the first of these blocks to before the second. Most of what is
    /// asked for does not, and is answered by this alone.
    span: (u64, u64),
}

/// Where each block went, if the moved ones lie close together: a leaf of single blocks in no
/// order asks for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Dense {
    from: u64,
    /// The new address of block `from + index`, plus 1; 0 for one that was not moved.
    to: Vec<u64>,
}

/// A dense table has at most so many entries for each moved block.
const DENSE_ENTRIES: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: u64,
    blocks: u64,
    to: u64,
}

/// Collects moves, in any order.
#[derive(Clone, Debug, Default)]
pub struct RelocationsBuilder {
    moves: Vec<Move>,
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

    /// All moves added. No block may have been moved twice.
    pub fn build(mut self) -> Relocations {
        self.moves.sort_unstable_by_key(|m| m.from);
        let mut moves: Vec<Move> = Vec::with_capacity(self.moves.len());
        for next in self.moves {
            if let Some(last) = moves.last_mut() {
                let end = last.from + last.blocks;
                assert!(end <= next.from, "{} is moved twice", Pba(next.from));
                if end == next.from && last.to + last.blocks == next.to {
                    last.blocks += next.blocks;
                    continue;
                }
            }
            moves.push(next);
        }
        let dense = Dense::of(&moves);
        let first = moves.first().map_or(0, |first| first.from);
        let end = moves.last().map_or(0, |last| last.from + last.blocks);
        Relocations { moves, dense, span: (first, end) }
    }
}

impl Dense {
    fn of(moves: &[Move]) -> Dense {
        let (Some(first), Some(last)) = (moves.first(), moves.last()) else {
            return Dense::default();
        };
        let span = last.from + last.blocks - first.from;
        let moved: u64 = moves.iter().map(|m| m.blocks).sum();
        if span > DENSE_ENTRIES * moved {
            return Dense::default();
        }
        let mut to = vec![0; span as usize];
        for m in moves {
            let at = (m.from - first.from) as usize;
            to[at..at + m.blocks as usize].iter_mut().zip(m.to + 1..).for_each(|(t, a)| *t = a);
        }
        Dense { from: first.from, to }
    }
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

    /// Where the block at `pba` went, and how many from it on went to the addresses that follow.
    pub fn lookup(&self, pba: Pba) -> Option<(Pba, u64)> {
        let found = self.moves[..self.after(pba.0)].last()?;
        let skip = pba.0 - found.from;
        (skip < found.blocks).then(|| (Pba(found.to + skip), found.blocks - skip))
    }

    /// Where the one block at `pba` went.
    #[inline]
    pub(crate) fn lookup_one(&self, pba: Pba) -> Option<Pba> {
        if self.dense.to.is_empty() {
            return self.lookup(pba).map(|(to, _)| to);
        }
        let to = *self.dense.to.get(pba.0.wrapping_sub(self.dense.from) as usize)?;
        (to != 0).then(|| Pba(to - 1))
    }

    /// All moves, by source: from, blocks, to.
    pub fn iter(&self) -> impl Iterator<Item = (Pba, u64, Pba)> {
        self.moves.iter().map(|m| (Pba(m.from), m.blocks, Pba(m.to)))
    }

    /// Whether `blocks` blocks from `pba` reach to where blocks moved.
    #[inline]
    pub(crate) fn is_near(&self, pba: Pba, blocks: u64) -> bool {
        pba.0 < self.span.1 && pba.0 + blocks > self.span.0
    }

    /// Whether any of `blocks` blocks from `pba` moved.
    pub fn touches(&self, pba: Pba, blocks: u64) -> bool {
        if !self.is_near(pba, blocks) {
            return false;
        }
        self.lookup(pba).is_some() || self.next_move(pba).is_some_and(|at| at.0 < pba.0 + blocks)
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
        let far = |at: u64| moves.lookup(Pba(at)).map(|(to, _)| to);
        assert!(!moves.dense.to.is_empty());
        assert!((0..50).all(|at| moves.lookup_one(Pba(at)) == far(at)));
        let mut scattered = Relocations::builder();
        scattered.add(Pba(5), 1, Pba(0)).add(Pba(5000), 1, Pba(3));
        let scattered = scattered.build();
        assert!(scattered.dense.to.is_empty());
        assert_eq!(scattered.lookup_one(Pba(5)), Some(Pba(0)));
        assert_eq!(scattered.lookup_one(Pba(6)), None);
    }
}
