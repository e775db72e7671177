//! Counts the distinct blocks that requests touch, in bounded memory.

use std::hash::BuildHasherDefault;

use hashbrown::HashMap;
use mjolnir_units::BLOCK_SIZE;

use crate::VolumeId;
use crate::mix::{Mix, mix};

/// Blocks in a chunk.
const CHUNK_BLOCKS: u64 = 512;
const WORDS: usize = CHUNK_BLOCKS as usize / 64;

#[derive(Clone, Copy, Default)]
struct Chunk {
    touched: [u64; WORDS],
    written: [u64; WORDS],
}

/// The blocks touched and written, of 4 KiB each.
///
/// Exact up to a number of chunks of 2 MiB; past it, a growing share of the chunks is left out,
/// chosen by a hash of their address, and the count of the others is scaled up.
pub(crate) struct Footprint {
    chunks: HashMap<(u32, u64), Chunk, BuildHasherDefault<Mix>>,
    /// One chunk in 2^`level` is kept.
    level: u32,
    limit: usize,
    touched: u64,
    written: u64,
}

impl Footprint {
    /// Keeps up to `limit` chunks (about 160 bytes each).
    pub(crate) fn new(limit: usize) -> Self {
        Footprint { chunks: HashMap::default(), level: 0, limit, touched: 0, written: 0 }
    }

    pub(crate) fn add(&mut self, volume: VolumeId, offset: u64, length: u64, is_write: bool) {
        let last = (offset + length - 1) / BLOCK_SIZE;
        let mut block = offset / BLOCK_SIZE;
        while block <= last {
            let chunk = block / CHUNK_BLOCKS;
            let end = last.min(chunk * CHUNK_BLOCKS + CHUNK_BLOCKS - 1);
            if kept(volume.0, chunk, self.level) {
                self.mark((volume.0, chunk), block % CHUNK_BLOCKS, end % CHUNK_BLOCKS, is_write);
            }
            block = end + 1;
        }
    }

    fn mark(&mut self, key: (u32, u64), first: u64, last: u64, is_write: bool) {
        let chunk = self.chunks.entry(key).or_default();
        for word in first / 64..=last / 64 {
            let low = if word == first / 64 { first % 64 } else { 0 };
            let high = if word == last / 64 { last % 64 } else { 63 };
            let bits = u64::MAX << low & u64::MAX >> (63 - high);
            let word = word as usize;
            self.touched += u64::from((bits & !chunk.touched[word]).count_ones());
            chunk.touched[word] |= bits;
            if is_write {
                self.written += u64::from((bits & !chunk.written[word]).count_ones());
                chunk.written[word] |= bits;
            }
        }
        while self.chunks.len() > self.limit {
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        self.level += 1;
        let level = self.level;
        self.chunks.retain(|(volume, chunk), _| kept(*volume, *chunk, level));
        let sum = |words: &[u64; WORDS]| {
            words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
        };
        self.touched = self.chunks.values().map(|chunk| sum(&chunk.touched)).sum();
        self.written = self.chunks.values().map(|chunk| sum(&chunk.written)).sum();
    }

    /// Distinct blocks touched.
    pub(crate) fn touched(&self) -> u64 {
        self.touched << self.level
    }

    /// Distinct blocks written.
    pub(crate) fn written(&self) -> u64 {
        self.written << self.level
    }

    /// Whether the counts are exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.level == 0
    }
}

fn kept(volume: u32, chunk: u64, level: u32) -> bool {
    mix(mix(u64::from(volume)) ^ chunk).trailing_zeros() >= level
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn it_counts_as_a_set_does() {
        for seed in 0..20 {
            let mut random = Pcg64::seed_from_u64(seed);
            let mut footprint = Footprint::new(1000);
            let (mut touched, mut written) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..300 {
                let volume = random.next_u32() % 3;
                let offset = u64::from(random.next_u32() % (32 << 20));
                let length = u64::from(random.next_u32() % (4 << 20)) + 1;
                let is_write = random.next_u32().is_multiple_of(2);
                footprint.add(VolumeId(volume), offset, length, is_write);
                for block in offset / 4096..=(offset + length - 1) / 4096 {
                    touched.insert((volume, block));
                    if is_write {
                        written.insert((volume, block));
                    }
                }
            }
            assert_eq!(footprint.touched(), touched.len() as u64, "seed {seed}");
            assert_eq!(footprint.written(), written.len() as u64, "seed {seed}");
            assert!(footprint.is_exact());
        }
    }

    #[test]
    fn past_its_limit_it_estimates() {
        let mut footprint = Footprint::new(10_000);
        let chunks = 200_000;
        for chunk in 0..chunks {
            footprint.add(VolumeId(0), chunk * CHUNK_BLOCKS * BLOCK_SIZE, BLOCK_SIZE, true);
        }
        assert!(!footprint.is_exact());
        assert!(footprint.chunks.len() <= 10_000);
        let error = footprint.touched().abs_diff(chunks) * 100 / chunks;
        assert!(error <= 4, "{} instead of {chunks}", footprint.touched());
    }
}
