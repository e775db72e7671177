//! One bit for each of many blocks.

/// Words of 64 bits that are joined at once.
const PIECE: usize = 256;

/// A bit for each block of a range of addresses, counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Room for `blocks` blocks, rounded up to a multiple of 64; no bit is set.
    pub fn new(blocks: u64) -> Self {
        Bits { words: vec![0; blocks.div_ceil(64) as usize] }
    }

    /// The number of blocks that there is room for.
    pub fn room(&self) -> u64 {
        64 * self.words.len() as u64
    }

    /// Sets one bit; does nothing past the room.
    #[inline]
    pub fn set(&mut self, at: u64) {
        if let Some(bits) = self.words.get_mut((at / 64) as usize) {
            *bits |= 1 << (at % 64);
        }
    }

    /// Sets the bits `from..to`, as far as there is room.
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

    /// Sets all bits that `other` has set. Both have the same room.
    pub fn set_those_of(&mut self, other: &Bits) {
        debug_assert_eq!(self.room(), other.room());
        self.words.iter_mut().zip(&other.words).for_each(|(bits, other)| *bits |= other);
    }

    /// Clears all bits that `other` has set. Both have the same room.
    pub fn clear_those_of(&mut self, other: &Bits) {
        debug_assert_eq!(self.room(), other.room());
        self.words.iter_mut().zip(&other.words).for_each(|(bits, other)| *bits &= !other);
    }

    /// Counts the bits set both here and in `other`. Both have the same room.
    pub fn in_common_with(&self, other: &Bits) -> u64 {
        debug_assert_eq!(self.room(), other.room());
        let both = self.words.iter().zip(&other.words).map(|(bits, other)| bits & other);
        both.map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// A copy of the bits `from..to`, moved to start at 0.
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

    /// Calls `each` with the runs of set bits in `from..to`: the first bit and the length, at most
    /// 64. There must be room up to `to`.
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

    /// Counts the bits of `from..to` that at least one of `all` has set. Each must have room up to
    /// `to`.
    pub fn count_in_any(all: &[Bits], from: u64, to: u64) -> u64 {
        let Some((first, others)) = all.split_first().filter(|_| from < to) else { return 0 };
        let (begin, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
        // Joins piece by piece, so that a piece stays in cache. A plain loop over whole words
        // counts several at once.
        let mut piece = [0; PIECE];
        let mut count = 0;
        for at in (begin..=last).step_by(PIECE) {
            let here = at..(at + PIECE).min(last + 1);
            let piece = &mut piece[..here.len()];
            piece.copy_from_slice(&first.words[here.clone()]);
            for other in others {
                let other = &other.words[here.clone()];
                piece.iter_mut().zip(other).for_each(|(bits, other)| *bits |= other);
            }
            if at == begin {
                piece[0] &= u64::MAX << (from % 64);
            }
            if here.end > last {
                piece[last - at] &= u64::MAX >> (63 - (to - 1) % 64);
            }
            count += piece.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        count
    }

    /// Bytes of memory on the heap.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::slice::from_ref;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// Random runs in `blocks` blocks, and the set of their blocks.
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
            // Now and then more than a piece.
            let most = if below(20) == 0 { 40_000 } else { 400 };
            let blocks = 1 + below(most);
            let (bits, naive) = some(blocks, &mut below);
            let (other, others) = some(blocks, &mut below);
            let from = below(blocks);
            let to = from + below(blocks - from + 1);
            let within: BTreeSet<u64> = naive.range(from..to).copied().collect();
            assert_eq!(all(&bits, from, to), within);
            assert_eq!(Bits::count_in_any(from_ref(&bits), from, to), within.len() as u64);
            let part = bits.part(from, to);
            let found = all(&part, 0, part.room());
            assert!(found.iter().map(|at| from + at).eq(within.iter().copied()));
            let common = others.range(from..to).filter(|at| within.contains(at)).count();
            assert_eq!(part.in_common_with(&other.part(from, to)), common as u64);
            assert_eq!(bits.in_common_with(&other), (&naive & &others).len() as u64);
            let sheets = [bits, other, Bits::new(blocks)];
            let either: BTreeSet<u64> = &naive | &others;
            let within = either.range(from..to).count();
            assert_eq!(Bits::count_in_any(&sheets, from, to), within as u64);
            let [mut less, other, mut both] = sheets;
            both.set_those_of(&less);
            both.set_those_of(&other);
            less.clear_those_of(&other);
            assert_eq!(all(&both, 0, blocks), either);
            assert_eq!(all(&less, 0, blocks), &naive - &others);
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_not_set() {
        let mut bits = Bits::new(33);
        bits.set(64);
        bits.set_run(62, 300);
        bits.set(u64::MAX);
        assert_eq!(Bits::count_in_any(from_ref(&bits), 0, 64), 2);
        assert_eq!((bits.room(), bits.bytes(), Bits::default().room()), (64, 8, 0));
        assert_eq!(Bits::count_in_any(&[bits], 5, 5), 0);
        assert_eq!(Bits::count_in_any(&[], 0, 9), 0);
    }
}
