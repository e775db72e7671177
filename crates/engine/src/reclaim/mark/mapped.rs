//! What the words of a leaf refer to: their bits set on a sheet, and counted.

use std::ops::{Add, Sub};

use mjolnir_map::{Bits, a_line, prefetch_line, word};

/// What words refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Words that are no holes.
    pub words: u64,
    /// Blocks, each as often as it is referred to.
    pub blocks: u64,
}

impl Mapped {
    /// What these words refer to.
    pub fn of(words: &[u64]) -> Self {
        let mapped = words.iter().filter(|word| word::pba(**word).is_some());
        mapped.fold(Mapped::default(), |sum, word| {
            sum + Mapped { words: 1, blocks: word::blocks(*word) }
        })
    }
}

impl Add for Mapped {
    type Output = Mapped;

    fn add(self, other: Mapped) -> Mapped {
        Mapped { words: self.words + other.words, blocks: self.blocks + other.blocks }
    }
}

impl Sub for Mapped {
    type Output = Mapped;

    fn sub(self, other: Mapped) -> Mapped {
        Mapped { words: self.words - other.words, blocks: self.blocks - other.blocks }
    }
}

/// Sets the bits of all that a leaf's words refer to. Words `ahead` are asked for on the way, a line for
/// each line that is gone through: all of them at once would be more than can be under way.
#[inline]
pub(super) fn set_all(live: &mut Bits, entries: &[u64], ahead: &[u64]) -> Mapped {
    let (mut words, mut blocks) = (entries.len() as u64, entries.len() as u64);
    let mut lines_ahead = ahead.chunks(a_line::<u64>());
    for line in entries.chunks(a_line::<u64>()) {
        if let Some(line) = lines_ahead.next() {
            prefetch_line(line);
        }
        // A random map is made of single blocks. So short is their part of the loop that the misses of
        // many are under way at once.
        for entry in line {
            if word::is_single(*entry) {
                live.set(*entry);
            } else if let Some(pba) = word::pba(*entry) {
                live.set_run(pba.0, pba.0 + word::blocks(*entry));
                blocks += word::blocks(*entry) - 1;
            } else {
                words -= 1;
                blocks -= 1;
            }
        }
    }
    Mapped { words, blocks }
}
