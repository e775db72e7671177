//! Nodes that have most of their entries in common.
//!
//! The first write to a leaf after a snapshot copies it, and the nodes above it, for the sake of a word
//! or two. So most nodes of a volume with many snapshots have a twin, and what a walk did for the one
//! is done for the other but for these entries.

/// Nodes that a walk met lately, with what it wants to know of each. The key of a node is its first
/// entry, which most twins have in common.
pub struct Twins<T> {
    /// By a hash of the key: the newest first.
    sets: Vec<[Option<(u64, T)>; WAYS]>,
}

/// Nodes kept are [`SETS`] times so many: a walk comes back to a twin after as many leaves as the
/// volume has that are written to, and those kept should fit a processor's cache.
const WAYS: usize = 4;
const SETS: usize = 64;
/// Entries that are compared at once.
const PIECE: usize = 32;

impl<T> Default for Twins<T> {
    fn default() -> Self {
        Twins { sets: (0..SETS).map(|_| [const { None }; WAYS]).collect() }
    }
}

impl<T> Twins<T> {
    fn set(key: u64) -> usize {
        // Fibonacci hashing (Knuth, TAOCP 3, section 6.4).
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
    }

    /// What was kept of a node that is likely to be a twin of one with this key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<&T> {
        let set = self.sets[Self::set(key)].iter().flatten();
        set.filter(|(other, _)| *other == key).map(|(_, kept)| kept).next()
    }

    /// Keeps something of a node with this key, in place of what was kept of its twin or longest.
    #[inline]
    pub fn keep(&mut self, key: u64, what: T) {
        let set = &mut self.sets[Self::set(key)];
        let fits = |kept: &Option<(u64, T)>| kept.as_ref().is_none_or(|(other, _)| *other == key);
        let place = set.iter().position(fits).unwrap_or(WAYS - 1);
        set[..=place].rotate_right(1);
        set[0] = Some((key, what));
    }
}

/// Entries that [`are_twins`] compares, and how many of them must be the same.
const SAMPLES: (usize, usize) = (8, 4);

/// Whether two nodes have most of their entries in common, by a sample of them. Nodes that begin with
/// the same entry, such as a hole, need not have.
#[inline]
pub fn are_twins<T: PartialEq>(entries: &[T], other: &[T]) -> bool {
    let (samples, least) = SAMPLES;
    let shorter = entries.len().min(other.len());
    let same = (0..samples).filter(|number| {
        // In the second half from behind: an entry more or less in between changes little.
        let at = number * shorter / samples;
        match number * 2 < samples {
            true => entries.get(at) == other.get(at),
            false => {
                entries.iter().rev().nth(shorter - 1 - at)
                    == other.iter().rev().nth(shorter - 1 - at)
            }
        }
    });
    shorter > 0 && same.count() >= least
}

/// Calls `each` with the pieces of a node's entries that are not those of its twin: where in both they
/// begin, the piece, and what the twin has in its place. The rest of both is the same.
#[inline]
pub fn differing<'a, T: PartialEq>(
    entries: &'a [T],
    twin: &'a [T],
    mut each: impl FnMut(usize, &'a [T], &'a [T]),
) {
    if entries.len() == twin.len() {
        let pieces = entries.chunks(PIECE).zip(twin.chunks(PIECE));
        for (at, (piece, other)) in (0..).step_by(PIECE).zip(pieces) {
            if piece != other {
                each(at, piece, other);
            }
        }
        return;
    }
    // One was torn apart or joined with another: what is behind it lies elsewhere in the node.
    let same = |(piece, other): &(&[T], &[T])| piece == other;
    let ahead = entries.chunks_exact(PIECE).zip(twin.chunks_exact(PIECE));
    let front = PIECE * ahead.take_while(same).count();
    let (entries, twin) = (&entries[front..], &twin[front..]);
    let behind = entries.rchunks_exact(PIECE).zip(twin.rchunks_exact(PIECE));
    let back = PIECE * behind.take_while(same).count();
    each(front, &entries[..entries.len() - back], &twin[..twin.len() - back]);
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

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
            // Word for word, what is told in place of what is told makes the one of the other.
            let (mut rebuilt, mut from, mut told) = (Vec::new(), 0, 0);
            differing(&words, &twin, |at, piece, other| {
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
        differing(&other, &long, |_, piece, _| told.extend_from_slice(piece));
        assert!(told.contains(&9999) && told.len() <= PIECE);
        other.insert(100, 8888);
        told.clear();
        differing(&other, &long, |_, piece, _| told.extend_from_slice(piece));
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
            assert!(one.len() < 8 || are_twins(&one, &twin));
            let mut other: Vec<u64> = (0..500).map(|_| (1 << 42) + below(1 << 40) as u64).collect();
            other[0] = one[0];
            assert!(one.len() < 8 || !are_twins(&one, &other) && !are_twins(&other, &one));
        }
        assert!(!are_twins::<u64>(&[], &[]) && !are_twins(&[], &[1]));
    }

    #[test]
    fn the_leaf_met_last_is_found_and_the_oldest_makes_room() {
        let mut twins = Twins::default();
        for key in 0..10_000 {
            twins.keep(key, key);
            twins.keep(key, key + 1);
            assert_eq!(twins.find(key), Some(&(key + 1)));
        }
        let found = (0..10_000).filter(|key| twins.find(*key).is_some()).count();
        assert_eq!(found, SETS * WAYS, "as many as there is room for");
        let newest = (9_950..10_000).filter(|key| twins.find(*key).is_some()).count();
        assert!(newest >= 49, "{newest} of the last 50");
    }
}
