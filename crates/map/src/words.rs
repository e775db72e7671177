//! The words of a leaf. Leaves that have words in common store them once.
//!
//! The first write to a leaf after a snapshot makes a second leaf that differs in a word or two.
//! The old words become a *base* that both leaves share. Each leaf has *edits* besides: words that
//! replace words of the base. A word and its replacement have the same length, so a lookup of a
//! block's index needs the base alone. A leaf that needs any other change, or too many edits,
//! stores all its words itself again. Callers see the same words either way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::displaced::Displaced;
use crate::{leaf, word};

/// A word in place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The index of the base's word.
    pub at: u32,
    pub word: u64,
}

/// Words that leaves share. A word's reference counts only if a leaf still has the word.
#[derive(Debug)]
pub(crate) struct Base {
    words: Vec<u64>,
    /// Leaves that share the words and must be written.
    dirty: AtomicUsize,
    /// The bytes of all bases of the map.
    account: Arc<AtomicUsize>,
}

impl Base {
    fn new(words: Vec<u64>, account: Arc<AtomicUsize>) -> Arc<Base> {
        let base = Base { words, dirty: AtomicUsize::new(0), account };
        base.account.fetch_add(base.bytes(), Ordering::Relaxed);
        Arc::new(base)
    }

    /// Another base of the same map.
    pub fn with(&self, words: Vec<u64>) -> Arc<Base> {
        Base::new(words, self.account.clone())
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub fn bytes(&self) -> usize {
        2 * size_of::<usize>() + size_of::<Base>() + self.words.capacity() * size_of::<u64>()
    }

    /// Counts one more leaf to be written; returns the new count.
    pub fn add_dirty(&self) -> usize {
        self.dirty.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts one leaf less to be written; returns the new count.
    pub fn remove_dirty(&self) -> usize {
        self.dirty.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// The words, to be changed; a copy if another leaf shares them.
    fn into_words(mut base: Arc<Base>, total: u64) -> Vec<u64> {
        match Arc::get_mut(&mut base) {
            None => leaf::copy_to_change(&base.words, total),
            Some(alone) => {
                let all = alone.bytes();
                let words = std::mem::take(&mut alone.words);
                alone.account.fetch_sub(all - alone.bytes(), Ordering::Relaxed);
                words
            }
        }
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// The bases of a map.
#[derive(Default)]
pub(crate) struct Bases {
    /// Bytes of all bases, including those of leaf versions held outside the map.
    account: Arc<AtomicUsize>,
    /// The bases loaded from media, by address.
    came: BTreeMap<u64, Weak<Base>>,
    /// A new entry in `came` triggers a scan of all at this many.
    many: usize,
}

/// At least this many bases from media are remembered before unused ones are forgotten.
const MANY: usize = 64;

impl Bases {
    /// A base of these words. Equal words from the same address share one base.
    pub fn of(&mut self, words: Vec<u64>, from: Option<u64>) -> Arc<Base> {
        let Some(from) = from else { return Base::new(words, self.account.clone()) };
        // Other words may lie at this address by now.
        let known = self.came.get(&from).and_then(Weak::upgrade).filter(|base| base.words == words);
        known.unwrap_or_else(|| {
            if self.came.len() >= self.many {
                self.came.retain(|_, base| base.strong_count() > 0);
                self.many = MANY.max(2 * self.came.len());
            }
            let base = Base::new(words, self.account.clone());
            self.came.insert(from, Arc::downgrade(&base));
            base
        })
    }

    /// Bytes of all words that leaves share.
    pub fn bytes(&self) -> usize {
        self.account.load(Ordering::Relaxed)
    }

    /// Bytes of the list of bases from media, as a tree two thirds full.
    pub fn list_bytes(&self) -> usize {
        self.came.len() * 3 * size_of::<(u64, Weak<Base>)>() / 2
    }
}

/// The words of a leaf that may share them: a base and edits.
#[derive(Clone, Debug)]
pub(crate) struct Patched {
    pub base: Arc<Base>,
    /// Sorted by index in the base, each index once.
    pub edits: Box<[Edit]>,
}

impl Patched {
    pub fn view(&self) -> Words<'_> {
        Words { base: &self.base.words, edits: &self.edits }
    }

    /// All words of a leaf of `total` blocks, to be changed.
    pub fn into_words(self, total: u64) -> Vec<u64> {
        let mut words = Base::into_words(self.base, total);
        self.edits.iter().for_each(|edit| words[edit.at as usize] = edit.word);
        words
    }

    /// Replaces the word that starts at block `lo` with `word`, and returns its index. Changes
    /// nothing and returns `None` if the lengths differ, `word` could be joined with a neighbour,
    /// there is no room for an edit, or no other leaf has the base.
    pub fn replace(
        &mut self,
        total: u64,
        lo: u64,
        word: u64,
        edits_max: usize,
        displaced: &mut Displaced,
    ) -> Option<usize> {
        let (at, start) = self.view().seek(total, lo);
        let words = self.view();
        let (before, blocks) = (words.get(at), word::blocks(word));
        let fits = start == lo && word::blocks(before) == blocks;
        if !fits || words.joins(at, word) || Arc::strong_count(&self.base) == 1 {
            return None;
        }
        match self.edits.binary_search_by_key(&(at as u32), |edit| edit.at) {
            Ok(edit) => self.edits[edit].word = word,
            Err(_) if self.edits.len() >= edits_max => return None,
            Err(edit) => {
                let mut edits = std::mem::take(&mut self.edits).into_vec();
                edits.reserve_exact(1);
                edits.insert(edit, Edit { at: at as u32, word });
                self.edits = edits.into();
            }
        }
        displaced.note([before].into_iter(), start, lo, lo + blocks);
        Some(at)
    }

    /// Bytes of memory of the leaf itself, the base excluded.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.edits[..])
    }
}

/// The words of a leaf in address order (see [`word`]), shared or not.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    base: &'a [u64],
    edits: &'a [Edit],
}

impl<'a> From<&'a [u64]> for Words<'a> {
    fn from(words: &'a [u64]) -> Self {
        Words { base: words, edits: &[] }
    }
}

impl PartialEq for Words<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a> Words<'a> {
    /// The number of words.
    #[inline]
    pub fn len(self) -> usize {
        self.base.len()
    }

    /// Whether there are no words, as in the leaf of a tree without blocks.
    pub fn is_empty(self) -> bool {
        self.base.is_empty()
    }

    /// One of the words.
    #[inline]
    pub fn get(self, at: usize) -> u64 {
        match self.edits.binary_search_by_key(&(at as u32), |edit| edit.at) {
            Ok(edit) => self.edits[edit].word,
            Err(_) => self.base[at],
        }
    }

    /// The words in pieces, each with the index of its first word.
    #[inline]
    pub fn pieces(self) -> impl Iterator<Item = (usize, &'a [u64])> {
        let Words { base, mut edits } = self;
        let mut from = 0;
        std::iter::from_fn(move || {
            let next = edits.first().map_or(base.len(), |edit| edit.at as usize);
            let at = from;
            if from < next {
                from = next;
                return Some((at, &base[at..next]));
            }
            let (edit, rest) = edits.split_first()?;
            (edits, from) = (rest, next + 1);
            Some((at, std::slice::from_ref(&edit.word)))
        })
    }

    /// One word after the other.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u64> {
        self.iter_from(0)
    }

    /// One word after the other, from index `at` on.
    #[inline]
    pub fn iter_from(self, at: usize) -> impl Iterator<Item = u64> {
        let mut edits = &self.edits[self.edits.partition_point(|edit| (edit.at as usize) < at)..];
        (at..).zip(&self.base[at..]).map(move |(at, word)| match edits.split_first() {
            Some((edit, rest)) if edit.at as usize == at => {
                edits = rest;
                edit.word
            }
            _ => *word,
        })
    }

    /// All words as one slice.
    pub fn whole(self) -> Cow<'a, [u64]> {
        if self.edits.is_empty() {
            return Cow::Borrowed(self.base);
        }
        let mut words = self.base.to_vec();
        self.edits.iter().for_each(|edit| words[edit.at as usize] = edit.word);
        Cow::Owned(words)
    }

    /// Whether both leaves share one base.
    #[inline]
    pub(crate) fn has_in_common_with(self, other: Words<'_>) -> bool {
        std::ptr::eq(self.base, other.base)
    }

    /// The first word, of the base if the leaf has one.
    #[inline]
    pub fn key(self) -> Option<u64> {
        self.base.first().copied()
    }

    /// The index of the word that holds block `at` of a leaf of `total` blocks, and the word's
    /// first block.
    #[inline]
    pub(crate) fn seek(self, total: u64, at: u64) -> (usize, u64) {
        word::seek(self.base, total, at) // An edit has the length of the word that it replaces.
    }

    /// Whether `word` at index `at` could be joined with a neighbour.
    pub(crate) fn joins(self, at: usize, word: u64) -> bool {
        let before = at.checked_sub(1).map(|before| self.get(before));
        let behind = (at + 1 < self.len()).then(|| self.get(at + 1));
        word::joins(before, word, behind)
    }

    /// Calls `each` with the words that differ from another leaf with the same base: the index,
    /// this leaf's word, and the other's.
    #[inline]
    pub(crate) fn edits_against(
        self,
        other: Words<'_>,
        mut each: impl FnMut(usize, &[u64], &[u64]),
    ) {
        debug_assert!(self.has_in_common_with(other));
        let base = self.base;
        let (mut mine, mut others) = (self.edits, other.edits);
        loop {
            let (a, b) = (mine.first(), others.first());
            if let (Some(one), Some(other)) = (a, b)
                && one == other
            {
                (mine, others) = (&mine[1..], &others[1..]);
                continue;
            }
            let Some(at) = a.into_iter().chain(b).map(|edit| edit.at).min() else { return };
            let place = at as usize;
            let (mut word, mut other) = (base[place], base[place]);
            if let Some(edit) = a.filter(|edit| edit.at == at) {
                (word, mine) = (edit.word, &mine[1..]);
            }
            if let Some(edit) = b.filter(|edit| edit.at == at) {
                (other, others) = (edit.word, &others[1..]);
            }
            if word != other {
                each(place, &[word], &[other]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_units::Pba;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn patched_of(words: Vec<u64>, bases: &mut Bases) -> Patched {
        Patched { base: bases.of(words, None), edits: Box::default() }
    }

    #[test]
    fn a_leaf_has_the_words_that_it_would_have_by_itself() {
        let mut chance = Pcg64::seed_from_u64(2);
        let mut below = |limit: u64| (chance.next_u64() % limit) as usize;
        let mut bases = Bases::default();
        let (mut edited, mut refused) = (0, 0);
        for _ in 0..300 {
            let mut plain = Vec::new();
            for _ in 0..50 + below(200) {
                leaf::push(
                    &mut plain,
                    word::mapped(Pba(below(1 << 30) as u64), 1 + below(3) as u64),
                );
            }
            let mut patched = patched_of(plain.clone(), &mut bases);
            let total = word::sum(&plain);
            let other = patched.clone();
            let mut others = plain.clone();
            for _ in 0..60 {
                let lo = below(total) as u64;
                let word = word::mapped(Pba(below(1 << 30) as u64), 1 + below(3) as u64);
                let (at, start) = word::seek(&plain, total, lo);
                match patched.replace(total, lo, word, 32, &mut Displaced::default()) {
                    Some(place) => {
                        assert!(place == at && start == lo);
                        plain[at] = word;
                        edited += 1;
                    }
                    None => refused += 1,
                }
                let words = patched.view();
                assert_eq!(words.whole(), plain);
                assert_eq!(words.iter().collect::<Vec<_>>(), plain);
                let from = below(plain.len() as u64);
                assert_eq!(words.iter_from(from).collect::<Vec<_>>(), plain[from..]);
                assert_eq!(words.get(from), plain[from]);
                let joined: Vec<u64> =
                    words.pieces().flat_map(|(_, piece)| piece.to_vec()).collect();
                assert_eq!(joined, plain);
                assert!(words.pieces().all(|(at, piece)| piece == &plain[at..at + piece.len()]));
                assert_eq!(words.seek(total, lo), (at, start));
            }
            // Replacing the differing words turns the twin into the leaf.
            patched.view().edits_against(other.view(), |at, word, instead_of| {
                assert_eq!([others[at]], *instead_of);
                others[at] = word[0];
            });
            assert_eq!(others, plain);
            drop(other);
            assert_eq!(
                patched.replace(total, 0, word::mapped(Pba(5), 1), 32, &mut Displaced::default()),
                None,
                "nobody shares it"
            );
            assert_eq!(patched.into_words(total), plain);
        }
        assert_eq!(bases.bytes(), 0);
        assert!(edited > 3000 && refused > 3000, "{edited} edited, {refused} refused");
    }

    #[test]
    fn what_differs_from_a_twin_is_told_for_edits_of_either() {
        let base: Vec<u64> = (0..50).map(|at| word::mapped(Pba(at * 10), 1)).collect();
        let total = base.len() as u64;
        let (mut a, word) =
            (patched_of(base, &mut Bases::default()), |at| word::mapped(Pba(at), 1));
        let mut b = a.clone();
        a.replace(total, 3, word(7000), 2, &mut Displaced::default());
        a.replace(total, 5, word(8000), 2, &mut Displaced::default());
        b.replace(total, 5, word(8000), 2, &mut Displaced::default());
        b.replace(total, 9, word(9000), 2, &mut Displaced::default());
        let mut told = Vec::new();
        a.view().edits_against(b.view(), |at, word, other| {
            told.push((at, word[0], other[0]));
        });
        assert_eq!(told, [(3, word(7000), word(30)), (9, word(90), word(9000))]);
        let alone = patched_of(a.view().whole().into_owned(), &mut Bases::default());
        assert!(a.view().has_in_common_with(b.view()));
        assert!(!a.view().has_in_common_with(alone.view()));
        assert_eq!(a.view(), alone.view());
    }

    #[test]
    fn bases_that_come_from_one_place_are_one_unless_they_differ() {
        let mut bases = Bases::default();
        let one = bases.of(vec![1, 2], Some(70));
        assert!(Arc::ptr_eq(&one, &bases.of(vec![1, 2], Some(70))));
        assert!(!Arc::ptr_eq(&one, &bases.of(vec![1, 2], None)));
        assert!(!Arc::ptr_eq(&one, &bases.of(vec![1, 3], Some(70))));
        assert_eq!(bases.bytes(), one.bytes(), "the others are gone");
        for from in 0..10_000 {
            bases.of(vec![from], Some(from));
        }
        assert!(bases.came.len() <= MANY);
    }
}
