//! Leaf words: one extent in 64 bits.
//!
//! ```text
//! mapped  0 | blocks - 1 (16 bits) | physical address (47 bits)
//! hole    1 | blocks (63 bits)
//! ```

use mjolnir_units::Pba;

use crate::prefetch::prefetch_slice;

/// The most blocks that one mapped word holds.
pub const EXTENT_BLOCKS_MAX: u64 = 1 << 16;

const HOLE: u64 = 1 << 63;
const PBA_BITS: u32 = 47;
const LENGTH_MASK: u64 = EXTENT_BLOCKS_MAX - 1;
/// Words whose lengths are summed before the sum is tested.
const CHUNK: usize = 16;

const _: () = assert!(Pba::MAX.0 == (1 << PBA_BITS) - 1);
const _: () = assert!(PBA_BITS + EXTENT_BLOCKS_MAX.trailing_zeros() == 63);

/// The word of `blocks` blocks (1 to [`EXTENT_BLOCKS_MAX`]) that lie at `pba`.
pub fn mapped(pba: Pba, blocks: u64) -> u64 {
    debug_assert!((1..=EXTENT_BLOCKS_MAX).contains(&blocks) && pba.0 + (blocks - 1) <= Pba::MAX.0);
    (blocks - 1) << PBA_BITS | pba.0
}

/// The word of a hole of `blocks` blocks (at least 1, less than 2⁶³).
pub fn hole(blocks: u64) -> u64 {
    debug_assert!((1..HOLE).contains(&blocks));
    HOLE | blocks
}

/// Whether the word maps one block. Such a word equals the block's address.
#[inline]
pub fn is_single(word: u64) -> bool {
    word >> PBA_BITS == 0
}

/// Whether the word is a hole.
#[inline]
pub fn is_hole(word: u64) -> bool {
    word & HOLE != 0
}

/// The length of a word's extent, in blocks.
#[inline]
pub fn blocks(word: u64) -> u64 {
    if word & HOLE != 0 { word & !HOLE } else { (word >> PBA_BITS & LENGTH_MASK) + 1 }
}

/// The address of the word's extent; `None` for a hole.
#[inline]
pub fn pba(word: u64) -> Option<Pba> {
    (word & HOLE == 0).then_some(Pba(word & Pba::MAX.0))
}

/// Whether [`mapped`] or [`hole`] could have made the word with at most `blocks_max` blocks.
pub(crate) fn is_valid(word: u64, blocks_max: u64) -> bool {
    let fits = pba(word).is_none_or(|at| at.0 + (blocks(word) - 1) <= Pba::MAX.0);
    (1..=blocks_max).contains(&blocks(word)) && fits
}

/// The first `keep` blocks of the extent.
pub(crate) fn head(word: u64, keep: u64) -> u64 {
    debug_assert!(0 < keep && keep <= blocks(word));
    pba(word).map_or_else(|| hole(keep), |at| mapped(at, keep))
}

/// The rest of the extent after its first `skip` blocks.
pub(crate) fn tail(word: u64, skip: u64) -> u64 {
    let rest = blocks(word) - skip;
    pba(word).map_or_else(|| hole(rest), |at| mapped(at.plus(skip), rest))
}

/// One word equal to `a` followed by `b`, if there is one.
pub(crate) fn join(a: u64, b: u64) -> Option<u64> {
    let total = blocks(a) + blocks(b);
    match (pba(a), pba(b)) {
        (None, None) => Some(hole(total)),
        (Some(x), Some(y)) if x.plus(blocks(a)) == y && total <= EXTENT_BLOCKS_MAX => {
            Some(mapped(x, total))
        }
        _ => None,
    }
}

/// Whether a word could be joined with either neighbour.
#[inline]
pub(crate) fn joins(before: Option<u64>, word: u64, behind: Option<u64>) -> bool {
    before.is_some_and(|before| join(before, word).is_some())
        || behind.is_some_and(|behind| join(word, behind).is_some())
}

/// The length of all extents together, in blocks.
#[inline]
pub fn sum(words: &[u64]) -> u64 {
    let mut total = 0;
    for chunk in words.chunks(CHUNK) {
        // Without a hole (the dense case) this costs a shift and an addition per word.
        let (mut any, mut mapped) = (0, chunk.len() as u64);
        for word in chunk {
            any |= word;
            mapped += word >> PBA_BITS;
        }
        let mixed = any & HOLE != 0;
        total += if mixed { chunk.iter().map(|word| blocks(*word)).sum() } else { mapped };
    }
    total
}

/// The index of the word that holds block `at` (less than `total`, the sum of all lengths), and
/// the first block of its extent.
#[inline]
pub(crate) fn seek(words: &[u64], total: u64, at: u64) -> (usize, u64) {
    debug_assert!(at < total);
    if total == words.len() as u64 {
        return (at as usize, at); // No entry is empty, so each has one block.
    }
    // Searches from the nearer end. Extents are usually of about one length, so the guess is close
    // and the words up to it are prefetched at once.
    let guess = (words.len() as f64 * (at as f64 / total as f64)) as usize;
    if 2 * at < total {
        prefetch_slice(&words[..guess]);
        let (mut index, mut start) = (0, 0);
        for chunk in words.chunks_exact(CHUNK) {
            let length = sum(chunk);
            if start + length > at {
                break;
            }
            start += length;
            index += CHUNK;
        }
        return seek_from(words, (index, start), at);
    }
    prefetch_slice(&words[guess..]);
    let (mut index, mut start) = (words.len(), total);
    for chunk in words.rchunks_exact(CHUNK) {
        let length = sum(chunk);
        if start - length <= at {
            break;
        }
        start -= length;
        index -= CHUNK;
    }
    while start > at {
        index -= 1;
        start -= blocks(words[index]);
    }
    (index, start)
}

/// As [`seek`], from a word at or before the one that holds `at`.
#[inline]
pub(crate) fn seek_from(words: &[u64], from: (usize, u64), at: u64) -> (usize, u64) {
    let (mut index, mut start) = from;
    loop {
        let end = start + blocks(words[index]);
        if end > at {
            return (index, start);
        }
        start = end;
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_the_whole_range_of_addresses_and_lengths() {
        for (at, length) in [(0, 1), (5, 65536), (Pba::MAX.0, 1), (Pba::MAX.0 - 65535, 65536)] {
            let word = mapped(Pba(at), length);
            assert_eq!((pba(word), blocks(word)), (Some(Pba(at)), length));
            assert!(is_valid(word, 1 << 52));
        }
        assert_eq!((pba(hole(1 << 52)), blocks(hole(1 << 52))), (None, 1 << 52));
        assert!(!is_valid(HOLE, 1 << 52) && !is_valid(hole(7), 6));
        assert!(!is_valid(1 << PBA_BITS | Pba::MAX.0, 1 << 52), "it runs past the last address");
    }

    #[test]
    fn only_what_one_word_can_hold_is_joined() {
        assert_eq!(join(mapped(Pba(5), 2), mapped(Pba(7), 3)), Some(mapped(Pba(5), 5)));
        assert_eq!(join(mapped(Pba(5), 2), mapped(Pba(8), 3)), None);
        assert_eq!(join(mapped(Pba(0), 65535), mapped(Pba(65535), 2)), None);
        assert_eq!(join(hole(3), hole(4)), Some(hole(7)));
        assert_eq!(join(hole(3), mapped(Pba(3), 1)), None);
    }

    #[test]
    fn seeking_finds_every_block_in_dense_and_mixed_leaves() {
        let dense: Vec<u64> = (0..100).map(|i| mapped(Pba(i * 2), 1)).collect();
        let mixed: Vec<u64> = (0..100)
            .map(|i| if i % 3 == 0 { hole(i + 1) } else { mapped(Pba(i * 1000), i % 7 + 1) })
            .collect();
        for words in [dense, mixed] {
            let total = sum(&words);
            let mut start = 0;
            for (index, word) in words.iter().enumerate() {
                for at in start..start + blocks(*word) {
                    assert_eq!(seek(&words, total, at), (index, start));
                }
                start += blocks(*word);
            }
        }
    }
}
