//! Pairs of leaves that have most of their words in common.
//!
//! The first write to a leaf after a snapshot copies the leaf to change a word or two. So most
//! leaves of a volume with many snapshots have a twin. A walk reuses its result for one twin and
//! redoes only the words that differ. Leaves with a shared base name the differing words; other
//! leaves are compared.

use crate::Words;

/// The leaves that a walk met lately, each with the walk's result. A lookup goes by the first word,
/// which most twins have in common.
pub struct Twins<T> {
    /// Sets by a hash of the first word; within a set the newest first.
    sets: Vec<[Option<(u64, T)>; WAYS]>,
}

/// Leaves kept in each of the [`SETS`] sets. A walk meets a twin after as many leaves as the volume
/// has written leaves, and the kept leaves should fit a processor's cache.
const WAYS: usize = 4;
const SETS: usize = 64;
/// Words compared at once.
const PIECE: usize = 32;

impl<T> Default for Twins<T> {
    fn default() -> Self {
        Twins { sets: (0..SETS).map(|_| [const { None }; WAYS]).collect() }
    }
}

impl<T> Twins<T> {
    fn set(first: u64) -> usize {
        // Fibonacci hashing (Knuth, TAOCP 3, section 6.4).
        (first.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
    }

    /// The entry kept for a twin of a leaf with these words. `words_of` returns the words of an
    /// entry.
    #[inline]
    pub fn find<'a>(
        &'a self,
        words: Words<'a>,
        words_of: impl Fn(&'a T) -> Words<'a>,
    ) -> Option<&'a T> {
        let first = words.key()?;
        let mut set = self.sets[Self::set(first)].iter().flatten();
        let (_, kept) = set.find(|(other, _)| *other == first)?;
        let other = words_of(kept);
        (words.has_in_common_with(other) || are_twins(words, other)).then_some(kept)
    }

    /// Keeps an entry for a leaf with this [`Words::key`]. It replaces the entry with the same key,
    /// else the oldest of its set.
    #[inline]
    pub fn keep(&mut self, first: u64, what: T) {
        let set = &mut self.sets[Self::set(first)];
        let fits = |kept: &Option<(u64, T)>| kept.as_ref().is_none_or(|(other, _)| *other == first);
        let place = set.iter().position(fits).unwrap_or(WAYS - 1);
        set[..=place].rotate_right(1);
        set[0] = Some((first, what));
    }
}

/// The number of words that [`are_twins`] compares, and how many of them must be equal.
const SAMPLES: (usize, usize) = (8, 4);

/// Whether two leaves have most of their words in common, judged by a sample. Leaves with the same
/// first word, such as a hole, need not be twins.
#[inline]
fn are_twins(words: Words<'_>, other: Words<'_>) -> bool {
    let (samples, least) = SAMPLES;
    let shorter = words.len().min(other.len());
    let same = (0..samples).filter(|number| {
        // The second half counts from the end, so that an inserted or removed word changes few
        // samples.
        let at = number * shorter / samples;
        match number * 2 < samples {
            true => words.get(at) == other.get(at),
            false => {
                let [one, two] = [words, other].map(|all| all.get(all.len() - shorter + at));
                one == two
            }
        }
    });
    shorter > 0 && same.count() >= least
}

/// Calls `each` with the pieces in which a leaf's words differ from its twin's: the index of the
/// first word in both, the piece, and the twin's piece. All other words are equal.
#[inline]
pub fn differing(words: Words<'_>, twin: Words<'_>, mut each: impl FnMut(usize, &[u64], &[u64])) {
    if words.has_in_common_with(twin) {
        return words.edits_against(twin, each);
    }
    let (words, twin) = (&words.whole()[..], &twin.whole()[..]);
    if words.len() == twin.len() {
        let pieces = words.chunks(PIECE).zip(twin.chunks(PIECE));
        for (at, (piece, other)) in (0..).step_by(PIECE).zip(pieces) {
            if piece != other {
                each(at, piece, other);
            }
        }
        return;
    }
    // A word was torn apart or joined with another: the words behind it have other indices.
    let same = |(piece, other): &(&[u64], &[u64])| piece == other;
    let ahead = words.chunks_exact(PIECE).zip(twin.chunks_exact(PIECE));
    let front = PIECE * ahead.take_while(same).count();
    let (words, twin) = (&words[front..], &twin[front..]);
    let behind = words.rchunks_exact(PIECE).zip(twin.rchunks_exact(PIECE));
    let back = PIECE * behind.take_while(same).count();
    each(front, &words[..words.len() - back], &twin[..twin.len() - back]);
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn alike(one: &[u64], other: &[u64]) -> bool {
        are_twins(one.into(), other.into())
    }

    #[test]
    fn what_differs_is_told_and_the_rest_is_the_same() {
        let mut chance = Pcg64::seed_from_u64(5);
        let mut below = |limit: u64| (chance.next_u64() % limit) as usize;
        for round in 0..5_000 {
            let twin: Vec<u64> = (0..below(200)).map(|_| below(1 << 40) as u64).collect();
            let mut words = twin.clone();
            for _ in 0..below(4) {
                let at = below(words.len() as u64 + 1);
                let to = (at + below(3)).min(words.len());
                words.splice(at..to, (0..below(4)).map(|i| (1 << 41) + i as u64));
            }
            // Replacing each twin's piece by the leaf's piece turns the twin into the leaf.
            let (mut rebuilt, mut from, mut told) = (Vec::new(), 0, 0);
            differing(words[..].into(), twin[..].into(), |at, piece, other| {
                rebuilt.extend_from_slice(&twin[from..at]);
                rebuilt.extend_from_slice(piece);
                from = at + other.len();
                told += piece.len();
            });
            rebuilt.extend_from_slice(&twin[from..]);
            assert_eq!(rebuilt, words, "round {round}");
            assert!(words != twin || words.is_empty() || told == 0, "round {round}");
        }
        let long: Vec<u64> = (0..512).collect();
        let mut other = long.clone();
        other[300] = 9999;
        let mut told = Vec::new();
        differing(other[..].into(), long[..].into(), |_, piece, _| told.extend_from_slice(piece));
        assert!(told.contains(&9999) && told.len() <= PIECE);
        other.insert(100, 8888);
        told.clear();
        differing(other[..].into(), long[..].into(), |_, piece, _| told.extend_from_slice(piece));
        assert!(told.contains(&8888) && told.contains(&9999) && told.len() < 300);
    }

    #[test]
    fn twins_differ_in_a_few_entries_and_others_in_most() {
        let mut chance = Pcg64::seed_from_u64(6);
        let mut below = |limit: u64| (chance.next_u64() % limit) as usize;
        for _ in 0..1_000 {
            let one: Vec<u64> = (0..1 + below(500)).map(|_| below(1 << 40) as u64).collect();
            let mut twin = one.clone();
            let at = below(one.len() as u64);
            twin.splice(at..at + 1, (0..below(3)).map(|_| 1 << 41));
            assert!(one.len() < 8 || alike(&one, &twin));
            let mut other: Vec<u64> = (0..500).map(|_| (1 << 42) + below(1 << 40) as u64).collect();
            other[0] = one[0];
            assert!(one.len() < 8 || !alike(&one, &other) && !alike(&other, &one));
        }
        assert!(!alike(&[], &[]) && !alike(&[], &[1]));
    }

    #[test]
    fn the_leaf_met_last_is_found_and_the_oldest_makes_room() {
        let mut twins = Twins::default();
        let leaf = |first: u64, last: u64| [first, 1, 2, 3, 4, 5, 6, last];
        for first in 0..10_000 {
            twins.keep(first, leaf(first, 7));
            twins.keep(first, leaf(first, 8));
            assert_eq!(
                twins.find(leaf(first, 9)[..].into(), |kept| kept[..].into()),
                Some(&leaf(first, 8))
            );
            assert_eq!(
                twins.find([first, 0, 0, 0, 0, 0, 0, 0][..].into(), |kept| kept[..].into()),
                None
            );
        }
        let found =
            |first: &u64| twins.find(leaf(*first, 9)[..].into(), |kept| kept[..].into()).is_some();
        assert_eq!((0..10_000).filter(found).count(), SETS * WAYS, "as many as there is room for");
        let newest = (9_950..10_000).filter(found).count();
        assert!(newest >= 49, "{newest} of the last 50");
        assert_eq!(twins.find([][..].into(), |kept| kept[..].into()), None);
    }
}
