//! A table indexed by physical address, for a few extents of a large space.

use crate::word;

/// One cell for each block of some extents. A leaf of single blocks in no order looks up each of
/// them, and most have no cell. So the space is divided into chunks of a power of two of blocks,
/// and a short index holds the chunks that the extents touch. Only these chunks have cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks<T> {
    from: u64,
    /// Blocks of a chunk, as a power of two.
    bits: u32,
    /// The place of each chunk's cells, in chunks; [`NOWHERE`] for chunks without cells. The last
    /// entry stands for all blocks outside the index.
    index: Vec<u32>,
    cells: Vec<T>,
    /// The extents, if there are at most [`FEW`] and none is huge: words are compared with all of
    /// them.
    few: Vec<Near>,
}

/// All blocks without a cell read this chunk of cells, which never changes. So no branch depends on
/// whether a block has a cell: a processor could not predict it.
const NOWHERE: u32 = 0;
/// The least and most blocks of a chunk, as powers of two. A small chunk wastes few cells; a large
/// chunk makes a short index.
const BITS: (u32, u32) = (6, 12);
/// Comparing a word with at most this many extents is faster than reading the index.
const FEW: usize = 6;
/// Words compared with the extents at once.
const PIECE: usize = 8;
/// A run of at most this many blocks lies in the chunks of its two ends.
const SHORT: u64 = 1 << BITS.0;
/// An index shorter than this many chunks is always allowed.
const INDEX_MAX: u64 = 1 << 20;

impl<T: Copy> Chunks<T> {
    /// Cells for extents (first block and blocks), all `empty` at first. A chunk has at most 2^12
    /// blocks, or 2^`bits_max` if the extents lie far apart. `None` if the index is still too long.
    pub fn new(extents: &[(u64, u64)], bits_max: u32, empty: T) -> Option<Self> {
        let from = extents.iter().map(|(at, _)| *at).min().unwrap_or(0);
        let end = extents.iter().map(|(at, blocks)| at + blocks).max().unwrap_or(0);
        let filled: u64 = extents.iter().map(|(_, blocks)| blocks).sum();
        let chunks = |bits: &u32| (end - from) >> bits;
        let (least, most) = BITS;
        // Each end of an extent wastes half a chunk. Longer chunks waste more; shorter chunks make
        // a longer index, which every lookup reads.
        let whole = filled / (2 * extents.len() as u64).max(1);
        let widest = whole.max(1).ilog2().clamp(least, most);
        // Where possible, the index has no more chunks than the extents have blocks.
        let bits = (widest..=most)
            .find(|bits| chunks(bits) <= filled)
            .or_else(|| (most..=bits_max.max(most)).find(|bits| chunks(bits) < INDEX_MAX))?;
        let index = vec![NOWHERE; ((end - from) >> bits) as usize + 2];
        let few = extents.len() <= FEW && extents.iter().all(|(_, blocks)| *blocks < 1 << 31);
        let few = if few { extents.iter().map(Near::to).collect() } else { Vec::new() };
        let mut table = Chunks { from, bits, index, cells: vec![empty; 1 << bits], few };
        for (at, blocks) in extents.iter().filter(|(_, blocks)| *blocks > 0) {
            for chunk in table.chunk(*at)..=table.chunk(at + blocks - 1) {
                if table.index[chunk] == NOWHERE {
                    table.index[chunk] = (table.cells.len() >> bits) as u32;
                    table.cells.resize(table.cells.len() + (1 << bits), empty);
                }
            }
        }
        Some(table)
    }

    /// The last index entry for blocks before or behind all extents.
    #[inline]
    fn chunk(&self, at: u64) -> usize {
        let chunk = (at.wrapping_sub(self.from) >> self.bits) as usize;
        chunk.min(self.index.len() - 1)
    }

    #[inline]
    fn cell(&self, place: u32, at: u64) -> usize {
        let within = at.wrapping_sub(self.from) & ((1 << self.bits) - 1);
        ((u64::from(place) << self.bits) + within) as usize
    }

    #[inline]
    fn place(&self, at: u64) -> u32 {
        self.index[self.chunk(at)]
    }

    /// A block's cell; `empty` for a block outside all chunks.
    #[inline]
    pub fn get(&self, at: u64) -> T {
        self.cells[self.cell(self.place(at), at)]
    }

    /// Stores `value` in the cells of `blocks` blocks. Skips blocks outside all chunks.
    #[inline]
    pub fn fill(&mut self, mut at: u64, mut blocks: u64, value: T) {
        while blocks > 0 {
            let chunk = 1 << self.bits;
            let here = blocks.min(chunk - (at.wrapping_sub(self.from) & (chunk - 1)));
            let place = self.place(at);
            if place != NOWHERE {
                let cell = self.cell(place, at);
                match here {
                    1 => self.cells[cell] = value,
                    _ => self.cells[cell..cell + here as usize].fill(value),
                }
            }
            (at, blocks) = (at + here, blocks - here);
        }
    }

    /// Whether some of `blocks` blocks (at least one) may have cells.
    #[inline]
    pub fn is_near(&self, at: u64, blocks: u64) -> bool {
        let first = self.chunk(at.max(self.from));
        let last = self.chunk((at + (blocks - 1)).max(self.from));
        self.index[first..=last].iter().any(|place| *place != NOWHERE)
    }

    /// The indices of a leaf's words that may refer to blocks of the extents, written to `room`.
    pub fn near_words<'a>(&self, words: &[u64], room: &'a mut Vec<u32>) -> &'a [u32] {
        room.resize(room.len().max(words.len()), 0);
        // The loop knows the number of extents, so it holds them in registers.
        let found = match self.few.len() {
            1 => self.near_words_by(&self.nearest::<1>(), words, room),
            2 => self.near_words_by(&self.nearest::<2>(), words, room),
            3 | 4 => self.near_words_by(&self.nearest::<4>(), words, room),
            5..=FEW => self.near_words_by(&self.nearest::<FEW>(), words, room),
            _ => self.near_words_by(&[], words, room),
        };
        &room[..found]
    }

    /// The extents, 1 to `N` of them; the last one repeated to make `N`.
    fn nearest<const N: usize>(&self) -> [Near; N] {
        std::array::from_fn(|number| self.few[number.min(self.few.len() - 1)])
    }

    /// Counts the words that may refer to blocks of the extents, and writes their indices to
    /// `room`, which is as long as `words`. `few`, unless empty, has the extents.
    fn near_words_by<const N: usize>(
        &self,
        few: &[Near; N],
        words: &[u64],
        room: &mut [u32],
    ) -> usize {
        let mut found = 0;
        // A processor cannot predict whether a word is near, so nothing branches on it.
        let mut note = |number: usize, is_near: bool| {
            room[found] = number as u32;
            found += usize::from(is_near);
        };
        let (pieces, rest) = words.as_chunks::<PIECE>();
        for (first, piece) in (0..).step_by(PIECE).zip(pieces) {
            if may_be_near(few, piece) {
                let numbered = (first..).zip(piece);
                numbered.for_each(|(number, word)| note(number, self.is_word_near(*word)));
            }
        }
        let from = words.len() - rest.len();
        (from..).zip(rest).for_each(|(number, word)| note(number, self.is_word_near(*word)));
        found
    }

    /// Whether a word may refer to blocks of the extents.
    #[inline]
    fn is_word_near(&self, word: u64) -> bool {
        let Some(at) = word::pba(word) else { return false };
        match word::blocks(word) {
            blocks if blocks <= SHORT => {
                let last = at.0 + (blocks - 1);
                (self.place(at.0) != NOWHERE) | (self.place(last) != NOWHERE)
            }
            blocks => self.is_near(at.0, blocks),
        }
    }

    /// Bytes of memory that the table takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.index.len() * size_of::<u32>() + self.cells.len() * size_of::<T>()
    }
}

/// The range of words that may refer to an extent, in the lower half of a word: its start and its
/// length. Processors compare several halves at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Near(u32, u32);

impl Near {
    /// For words of at most [`SHORT`] blocks.
    fn to((at, blocks): &(u64, u64)) -> Self {
        Near(at.wrapping_sub(SHORT) as u32, (blocks + SHORT) as u32)
    }
}

/// Whether some of these words may refer to one of the extents; always true if `few` is empty.
#[inline]
fn may_be_near<const N: usize>(few: &[Near; N], words: &[u64; PIECE]) -> bool {
    let (mut all, mut near) = (0, 0);
    for word in words {
        all |= word;
        for Near(from, reach) in few {
            near |= u32::from((*word as u32).wrapping_sub(*from) < *reach);
        }
    }
    // For a hole, these are the uppermost bits of its length.
    let lengths = all << 1 >> (u64::BITS - 16);
    N == 0 || near != 0 || lengths >= SHORT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mjolnir_units::Pba;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn it_equals_a_map_of_what_the_extents_cover() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut below = |limit: u64| random.next_u64() % limit;
        let shapes =
            [(1, 6), (7, 9), (1000, 5), (1 << 20, 6), (1 << 19, 7), (9, 1), (1 << 20, 2), (70, 3)];
        for (spread, count) in shapes {
            let extents: Vec<_> = (0..count)
                .map(|i| ((3 + i * 5000) * spread + below(100), 1 + below(3000)))
                .collect();
            let any = |number: u64| extents[(number % count) as usize];
            let mut table = Chunks::new(&extents, 40, 0u32).unwrap();
            let mut naive = BTreeMap::new();
            let covered = |at: u64| extents.iter().any(|(from, n)| (*from..from + n).contains(&at));
            for value in 1..5000 {
                let (from, blocks) = any(below(count));
                let at = (from + below(3 * blocks)).saturating_sub(blocks);
                if below(2) == 0 {
                    table.fill(at, 1, value);
                    naive.insert(at, value);
                } else {
                    let run = below(70);
                    table.fill(at, run, value);
                    naive.extend((at..at + run).map(|at| (at, value)));
                }
            }
            for (at, value) in naive {
                if covered(at) {
                    assert_eq!(table.get(at), value, "{at}, spread {spread}");
                    assert!(table.is_near(at, 1));
                } else if !table.is_near(at, 1) {
                    assert_eq!(table.get(at), 0, "{at}, spread {spread}");
                }
            }
            for at in [0, 1, u64::MAX >> 17] {
                assert_eq!(table.get(at), 0);
            }
            let (mut room, mut passed_over) = (Vec::new(), 0);
            for round in 0..200 {
                let words: Vec<_> = (0..below(300))
                    .map(|_| {
                        let (from, blocks) = any(below(count));
                        let at = Pba((from + below(90 * blocks)).saturating_sub(45 * blocks));
                        match below(5 + round % 2) {
                            0 => word::hole(1 + below(1 << (40 + 20 * (round % 2)))),
                            1..=4 => word::mapped(at, 1 + below(round % 70 + 1)),
                            _ => word::mapped(at, 1 + below(word::EXTENT_BLOCKS_MAX)),
                        }
                    })
                    .collect();
                let near = table.near_words(&words, &mut room);
                assert!(near.is_sorted_by(|a, b| a < b));
                let pieces = words.as_chunks::<PIECE>().0.iter();
                passed_over += match table.few.len() {
                    0 => pieces.filter(|words| !may_be_near(&[], words)).count(),
                    _ => {
                        pieces.filter(|words| !may_be_near(&table.nearest::<FEW>(), words)).count()
                    }
                };
                for (number, word) in (0..).zip(&words) {
                    let refers = word::pba(*word).is_some_and(|at| {
                        let end = at.0 + word::blocks(*word);
                        extents.iter().any(|(from, n)| at.0 < from + n && end > *from)
                    });
                    assert!(!refers || near.contains(&number), "{number}, spread {spread}");
                    let may =
                        word::pba(*word).is_some_and(|at| table.is_near(at.0, word::blocks(*word)));
                    assert!(may || !near.contains(&number), "{number}, spread {spread}");
                }
            }
            assert_eq!(passed_over > 0, count as usize <= FEW, "spread {spread}");
            assert!(table.bytes() < 8 << 20, "{} for a spread of {spread}", table.bytes());
        }
    }

    #[test]
    fn it_is_refused_where_it_would_be_long_and_nothing_has_no_cells() {
        let far = [(0, 10), (1 << 33, 10)];
        assert_eq!(Chunks::new(&far, 12, 0u8), None);
        assert!(Chunks::new(&far, 40, 0u8).is_some());
        let none = Chunks::new(&[], 12, 7u8).unwrap();
        assert_eq!((none.get(0), none.get(u64::MAX >> 17), none.is_near(5, 100)), (7, 7, false));
    }
}
