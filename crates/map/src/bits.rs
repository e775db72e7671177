//! One bit for each of many blocks.

use std::ops::Range;

/// A bit for each block of some stretch of addresses, counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// With room for `blocks` blocks, or up to 63 more; none is set.
    pub fn new(blocks: u64) -> Self {
        Bits { words: vec![0; blocks.div_ceil(64) as usize] }
    }

    /// For how many blocks there is room.
    pub fn room(&self) -> u64 {
        64 * self.words.len() as u64
    }

    /// Sets one, if there is room for it.
    #[inline]
    pub fn set(&mut self, at: u64) {
        if let Some(bits) = self.words.get_mut((at / 64) as usize) {
            *bits |= 1 << (at % 64);
        }
    }

    /// Sets those of `from..to` for which there is room.
    #[inline]
    pub fn set_run(&mut self, from: u64, to: u64) {
        let (mut at, end) = (from, to.min(self.room()));
        while at < end {
            let bit = at % 64;
            let count = (64 - bit).min(end - at);
            self.words[(at / 64) as usize] |= (u64::MAX >> (64 - count)) << bit;
            at += count;
        }
    }

    /// Those of words `words` of 64 that are set in any of some, all of which have as much room.
    pub fn union(all: &[Bits], words: Range<usize>) -> Bits {
        let (first, others) = all.split_first().expect("there are some");
        let mut union = Bits { words: first.words[words.clone()].to_vec() };
        for other in others {
            let other = &other.words[words.clone()];
            union.words.iter_mut().zip(other).for_each(|(bits, other)| *bits |= other);
        }
        union
    }

    /// Puts others in the place of those from word `at` of 64 on.
    pub fn put(&mut self, at: usize, part: &Bits) {
        self.words[at..at + part.words.len()].copy_from_slice(&part.words);
    }

    /// Clears all that are set in another, which has as much room.
    pub fn clear_those_of(&mut self, other: &Bits) {
        debug_assert_eq!(self.room(), other.room());
        self.words.iter_mut().zip(&other.words).for_each(|(bits, other)| *bits &= !other);
    }

    /// How many are set here and in another, which has as much room.
    pub fn in_common_with(&self, other: &Bits) -> u64 {
        debug_assert_eq!(self.room(), other.room());
        let both = self.words.iter().zip(&other.words).map(|(bits, other)| bits & other);
        both.map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Those of `from..to`, and no others, from 0 on.
    pub fn part(&self, from: u64, to: u64) -> Bits {
        let (first, shift) = ((from / 64) as usize, from % 64);
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        let both = |at: usize| match shift {
            0 => word(at),
            _ => word(at) >> shift | word(at + 1) << (64 - shift),
        };
        let mut words: Vec<u64> =
            (first..first + (to - from).div_ceil(64) as usize).map(both).collect();
        if let Some(last) = words.last_mut() {
            *last &= u64::MAX >> (63 - (to - from - 1) % 64);
        }
        Bits { words }
    }

    /// Calls `each` with the runs of set bits in `from..to`, for which there must be room, by first and
    /// length, none of them longer than a word.
    pub fn runs(&self, from: u64, to: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = from;
        while at < to {
            let left = (64 - at % 64).min(to - at);
            let bits = self.words[(at / 64) as usize] >> (at % 64);
            let clear = u64::from(bits.trailing_zeros()).min(left);
            let set = u64::from((bits >> clear.min(63)).trailing_ones()).min(left - clear);
            if set > 0 {
                each(at + clear, set);
            }
            at += clear + set;
        }
    }

    /// How many are set in `from..to`, for which there must be room.
    pub fn count(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
        let (head, tail) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
        let ones = |word: u64| u64::from(word.count_ones());
        match &self.words[first..=last] {
            [only] => ones(only & head & tail),
            // A plain loop over whole words, of which a processor counts several at once.
            [begin, whole @ .., end] => {
                let within: u64 = whole.iter().map(|word| ones(*word)).sum();
                ones(begin & head) + within + ones(end & tail)
            }
            [] => 0,
        }
    }

    /// Bytes of memory, beside its own.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// Some runs in `blocks` blocks, and the blocks that they are.
    fn some(blocks: u64, below: &mut impl FnMut(u64) -> u64) -> (Bits, BTreeSet<u64>) {
        let (mut bits, mut naive) = (Bits::new(blocks), BTreeSet::new());
        for _ in 0..below(20) {
            let from = below(blocks);
            let to = blocks.min(from + 1 + below(2) * below(150));
            match to - from {
                1 => bits.set(from),
                _ => bits.set_run(from, to),
            }
            naive.extend(from..to);
        }
        (bits, naive)
    }

    fn all(bits: &Bits, from: u64, to: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        bits.runs(from, to, |at, blocks| {
            assert!((1..=64).contains(&blocks) && found.last().is_none_or(|last| *last < at));
            found.extend(at..at + blocks);
        });
        found
    }

    #[test]
    fn they_are_as_a_set_of_blocks() {
        let mut chance = Pcg64::seed_from_u64(2);
        let mut below = |limit: u64| chance.next_u64() % limit;
        for _ in 0..3_000 {
            let blocks = 1 + below(400);
            let (bits, naive) = some(blocks, &mut below);
            let (other, others) = some(blocks, &mut below);
            let from = below(blocks);
            let to = from + below(blocks - from + 1);
            let within: BTreeSet<u64> = naive.range(from..to).copied().collect();
            assert_eq!(all(&bits, from, to), within);
            assert_eq!(bits.count(from, to), within.len() as u64);
            let part = bits.part(from, to);
            let found = all(&part, 0, part.room());
            assert!(found.iter().map(|at| from + at).eq(within.iter().copied()));
            let common = others.range(from..to).filter(|at| within.contains(at)).count();
            assert_eq!(part.in_common_with(&other.part(from, to)), common as u64);
            assert_eq!(bits.in_common_with(&other), (&naive & &others).len() as u64);
            let sheets = [bits, other];
            let words = sheets[0].words.len();
            let cut = below(words as u64 + 1) as usize;
            let mut both = Bits::new(blocks);
            both.put(cut, &Bits::union(&sheets, cut..words));
            both.put(0, &Bits::union(&sheets, 0..cut));
            let [mut less, other] = sheets;
            less.clear_those_of(&other);
            assert_eq!(all(&both, 0, blocks), &naive | &others);
            assert_eq!(all(&less, 0, blocks), &naive - &others);
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_not_set() {
        let mut bits = Bits::new(33);
        bits.set(64);
        bits.set_run(62, 300);
        bits.set(u64::MAX);
        assert_eq!((bits.count(0, 64), bits.room(), bits.bytes()), (2, 64, 8));
        assert_eq!((Bits::default().room(), Bits::default().count(5, 5)), (0, 0));
    }
}
