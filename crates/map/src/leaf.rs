//! Edits the words of a leaf and keeps them in normal form: no empty extents, and no two adjacent
//! words that could be joined.

use mjolnir_units::Pba;

use crate::dense::{copy_with_room, splice, trim};
use crate::displaced::Displaced;
use crate::word::{self, EXTENT_BLOCKS_MAX};

/// The most blocks that [`replace`] maps at once.
pub(crate) const REPLACE_BLOCKS_MAX: u64 = 4 * EXTENT_BLOCKS_MAX;

/// The few words that replace others: at most two neighbours, two remainders and four new words.
struct Few {
    words: [u64; 8],
    length: usize,
}

impl Few {
    fn push(&mut self, next: u64) {
        if let Some(last) = self.words[..self.length].last_mut()
            && let Some(both) = word::join(*last, next)
        {
            *last = both;
            return;
        }
        self.words[self.length] = next;
        self.length += 1;
    }
}

/// The words of `blocks` blocks from `pba`, or of a hole.
pub(crate) fn fill(pba: Option<Pba>, blocks: u64) -> impl Iterator<Item = u64> {
    let most = if pba.is_some() { EXTENT_BLOCKS_MAX } else { blocks.max(1) };
    (0..blocks.div_ceil(most)).map(move |i| {
        let length = most.min(blocks - i * most);
        pba.map_or_else(|| word::hole(length), |at| word::mapped(at.plus(i * most), length))
    })
}

/// The one word of `blocks` blocks from `pba`, or of a hole; `None` if one word cannot hold them.
pub(crate) fn one_word(pba: Option<Pba>, blocks: u64) -> Option<u64> {
    let one = pba.is_none() || blocks <= EXTENT_BLOCKS_MAX;
    one.then(|| fill(pba, blocks).next()).flatten()
}

/// A copy of the words of a leaf of `total` blocks, to be changed.
pub(crate) fn copy_to_change(words: &[u64], total: u64) -> Vec<u64> {
    copy_with_room(words, total as usize) // Each word has at least a block.
}

/// Maps blocks `lo..hi` of a leaf of `total` blocks to `pba` and on, or makes them a hole. Returns
/// the index of the first word that may have changed.
pub(crate) fn replace(
    words: &mut Vec<u64>,
    total: u64,
    lo: u64,
    hi: u64,
    pba: Option<Pba>,
    displaced: &mut Displaced,
) -> usize {
    debug_assert!(lo < hi && hi <= total && (pba.is_none() || hi - lo <= REPLACE_BLOCKS_MAX));
    let (first, first_start) = word::seek(words, total, lo);
    let before = first.checked_sub(1).map(|before| words[before]);
    if first_start == lo
        && word::blocks(words[first]) == hi - lo
        && let Some(one) = one_word(pba, hi - lo)
        && !word::joins(before, one, words.get(first + 1).copied())
    {
        displaced.note([words[first]].into_iter(), lo, lo, hi);
        words[first] = one; // The usual case for random writes.
        return first;
    }
    let (last, last_start) = word::seek_from(words, (first, first_start), hi - 1);
    displaced.note(words[first..=last].iter().copied(), first_start, lo, hi);
    let (mut from, mut to) = (first, last + 1);
    let mut few = Few { words: [0; 8], length: 0 };
    // The neighbours take part even if a remainder lies between. The remainder is shorter than its
    // word was, so one word may now hold it and the neighbour.
    if first > 0 {
        from -= 1;
        few.push(words[from]);
    }
    if first_start < lo {
        few.push(word::head(words[first], lo - first_start));
    }
    fill(pba, hi - lo).for_each(|next| few.push(next));
    if last_start + word::blocks(words[last]) > hi {
        few.push(word::tail(words[last], hi - last_start));
    }
    if to < words.len() {
        few.push(words[to]);
        to += 1;
    }
    splice(words, from, to, &few.words[..few.length], total as usize);
    if words.len() as u64 == total {
        words.shrink_to_fit(); // Every block is its own extent: the leaf can only become smaller.
    }
    from
}

/// Cuts a leaf of `total` blocks before block `at` (neither 0 nor `total`); returns the words of
/// the right part.
pub(crate) fn split_off(words: &mut Vec<u64>, total: u64, at: u64) -> Vec<u64> {
    let right = slice(words, total, at, total);
    let (index, start) = word::seek(words, total, at - 1);
    words[index] = word::head(words[index], at - start);
    words.truncate(index + 1);
    if let [.., a, b] = words[..]
        && let Some(both) = word::join(a, b)
    {
        words.pop();
        *words.last_mut().expect("two words were joined") = both;
    }
    trim(words, at as usize);
    right
}

/// The words of blocks `lo..hi` (not empty) of a leaf of `total` blocks.
pub(crate) fn slice(words: &[u64], total: u64, lo: u64, hi: u64) -> Vec<u64> {
    let (first, first_start) = word::seek(words, total, lo);
    let (last, last_start) = word::seek_from(words, (first, first_start), hi - 1);
    let mut out = Vec::with_capacity(last + 1 - first);
    for (index, whole) in words.iter().enumerate().take(last + 1).skip(first) {
        let mut part = *whole;
        if index == last {
            part = word::head(part, hi - last_start);
        }
        if index == first {
            part = word::tail(part, lo - first_start);
        }
        push(&mut out, part);
    }
    out
}

/// Appends a word, joined with the last where one word can hold both.
pub(crate) fn push(words: &mut Vec<u64>, next: u64) {
    if let Some(last) = words.last_mut()
        && let Some(both) = word::join(*last, next)
    {
        *last = both;
        return;
    }
    if words.len() < words.capacity() {
        words.push(next);
        return;
    }
    let end = words.len();
    splice(words, end, end, &[next], usize::MAX);
}

/// The words of both, in order.
pub(crate) fn concat(left: &[u64], right: &[u64]) -> Vec<u64> {
    let mut out = Vec::with_capacity(left.len() + right.len());
    out.extend_from_slice(left);
    if let Some((first, rest)) = right.split_first() {
        push(&mut out, *first);
        out.extend_from_slice(rest);
    }
    out
}
