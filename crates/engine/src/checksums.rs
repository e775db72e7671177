//! Checksums of sealed segments, kept in memory within a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mjolnir_units::{Pba, ZoneId};

use crate::format::bind;

/// What a segment's checksums are bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The segment's first block.
    pub start: Pba,
    pub incarnation: u64,
}

/// The checksums of a segment's blocks, by offset; 0 for headers. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Sums(Rc<Kept>);

#[derive(Debug)]
enum Kept {
    Each(Vec<u32>),
    /// Every block but those at `zeroes` has the same content, as in a simulation without payload.
    Alike {
        bound: Bound,
        content: u32,
        zeroes: Vec<u32>,
        count: usize,
    },
}

/// One block in so many may be a header for the others to count as alike.
const ALIKE_HEADERS: usize = 8;

impl Sums {
    pub fn new(values: Vec<u32>, bound: Bound) -> Self {
        let alike = Self::alike(&values, bound);
        Sums(Rc::new(alike.unwrap_or(Kept::Each(values))))
    }

    fn alike(values: &[u32], bound: Bound) -> Option<Kept> {
        let unbound = |at: usize| values[at] ^ bind(bound.start.plus(at as u64), bound.incarnation);
        let content = unbound(values.iter().position(|value| *value != 0)?);
        let mut zeroes = Vec::new();
        for (at, value) in values.iter().enumerate() {
            if *value == 0 {
                zeroes.push(at as u32);
            } else if unbound(at) != content {
                return None;
            }
        }
        zeroes.shrink_to_fit();
        let few = zeroes.len() <= values.len() / ALIKE_HEADERS;
        few.then_some(Kept::Alike { bound, content, zeroes, count: values.len() })
    }

    /// The checksum of the block at an offset; none past the end.
    pub fn get(&self, offset: u64) -> Option<u32> {
        match &*self.0 {
            Kept::Each(values) => values.get(offset as usize).copied(),
            Kept::Alike { bound, content, zeroes, count } => {
                let zero = |at: u32| zeroes.binary_search(&at).is_ok();
                (offset < *count as u64).then(|| match u32::try_from(offset).is_ok_and(zero) {
                    true => 0,
                    false => content ^ bind(bound.start.plus(offset), bound.incarnation),
                })
            }
        }
    }

    fn bytes(&self) -> u64 {
        let values = match &*self.0 {
            Kept::Each(values) => values,
            Kept::Alike { zeroes, .. } => zeroes,
        };
        4 * values.len() as u64
    }
}

/// See the module. An entry costs 4 bytes a block of its segment, or next to nothing where all
/// blocks are alike.
#[derive(Default)]
pub(crate) struct Checksums {
    segments: BTreeMap<ZoneId, Cached>,
    bytes: u64,
    clock: u64,
    loading: BTreeSet<ZoneId>,
}

struct Cached {
    sums: Sums,
    used_at: u64,
}

impl Checksums {
    pub fn insert(&mut self, zone: ZoneId, values: Vec<u32>, bound: Bound) -> Sums {
        self.remove(zone);
        let sums = Sums::new(values, bound);
        self.bytes += sums.bytes();
        self.clock += 1;
        self.segments.insert(zone, Cached { sums: sums.clone(), used_at: self.clock });
        sums
    }

    pub fn get(&mut self, zone: ZoneId) -> Option<&Sums> {
        self.clock += 1;
        let cached = self.segments.get_mut(&zone)?;
        cached.used_at = self.clock;
        Some(&cached.sums)
    }

    pub fn remove(&mut self, zone: ZoneId) {
        if let Some(cached) = self.segments.remove(&zone) {
            self.bytes -= cached.sums.bytes();
        }
    }

    /// Says that a segment's checksums are being read; false if they are already.
    pub fn begin_load(&mut self, zone: ZoneId) -> bool {
        self.loading.insert(zone)
    }

    pub fn is_loading(&self, zone: ZoneId) -> bool {
        self.loading.contains(&zone)
    }

    pub fn end_load(&mut self, zone: ZoneId) {
        self.loading.remove(&zone);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Drops what was used longest ago until at most `budget` bytes are held.
    pub fn shrink_to(&mut self, budget: u64) {
        while self.bytes > budget {
            let Some(oldest) =
                self.segments.iter().min_by_key(|(_, cached)| cached.used_at).map(|(z, _)| *z)
            else {
                return;
            };
            self.remove(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_alike_keep_their_checksums_in_no_room() {
        let bound = Bound { start: Pba(4096), incarnation: 7 };
        let sum = |at: u64, content| match at % 50 {
            0 => 0,
            _ => content ^ bind(bound.start.plus(at), bound.incarnation),
        };
        let alike: Vec<u32> = (0..1000).map(|at| sum(at, 99)).collect();
        let mut other = alike.clone();
        other[777] ^= 1;
        for (values, bytes) in [(alike, 80), (other, 4000), (vec![0; 10], 40), (vec![], 0)] {
            let sums = Sums::new(values.clone(), bound);
            assert_eq!(sums.bytes(), bytes);
            let back: Vec<u32> = (0..).map_while(|at| sums.get(at)).collect();
            assert_eq!(back, values);
        }
    }
}
