//! Checksums of sealed segments, kept in memory within a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use mjolnir_map::prefetch_slice;
use mjolnir_units::ZoneId;

/// The checksums of a segment's blocks, by offset; 0 for headers. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Sums(Rc<Vec<u32>>);

impl Sums {
    fn new(mut values: Vec<u32>) -> Self {
        // The vector grew with its segment; unused capacity would not be counted.
        values.shrink_to_fit();
        Sums(Rc::new(values))
    }

    /// The checksums of a range of blocks; `None` past the end.
    pub fn get(&self, range: Range<u64>) -> Option<&[u32]> {
        self.0.get(range.start as usize..range.end as usize)
    }

    /// Prefetches the checksums of a range into the processor's cache, for a comparison that
    /// follows soon.
    pub fn prefetch(&self, range: Range<u64>) {
        self.get(range).into_iter().for_each(prefetch_slice);
    }

    /// The first block at or after `from` without a checksum.
    pub fn first_without(&self, from: u64) -> Option<u64> {
        let rest = self.0.get(from as usize..)?;
        rest.iter().position(|sum| *sum == 0).map(|at| from + at as u64)
    }

    fn bytes(&self) -> u64 {
        4 * self.0.len() as u64
    }
}

/// See the module. An entry costs 4 bytes a block of its segment.
#[derive(Default)]
pub(crate) struct Checksums {
    segments: BTreeMap<ZoneId, Cached>,
    bytes: u64,
    clock: u64,
    loading: BTreeSet<ZoneId>,
    /// The bytes up to which checksums are loaded because there is room; `None` until `shrink_to`
    /// sets it.
    room: Option<u64>,
    /// Reads that used part of a footer since a whole segment's checksums were loaded last.
    missed: u64,
}

/// Reads that use part of a footer before a whole segment's checksums are loaded.
const MISSES_A_LOAD: u64 = 32;

struct Cached {
    sums: Sums,
    used_at: u64,
}

impl Checksums {
    pub fn insert(&mut self, zone: ZoneId, values: Vec<u32>) -> Sums {
        self.remove(zone);
        let sums = Sums::new(values);
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

    /// As [`get`](Self::get), but does not count as a use.
    pub fn peek(&self, zone: ZoneId) -> Option<&Sums> {
        self.segments.get(&zone).map(|cached| &cached.sums)
    }

    pub fn remove(&mut self, zone: ZoneId) {
        if let Some(cached) = self.segments.remove(&zone) {
            self.bytes -= cached.sums.bytes();
        }
    }

    /// Marks a segment's checksums as being loaded; false if they already are.
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

    /// Whether a segment's checksums, `bytes` long, are worth loading for one read. They are if
    /// they fit beside those held and those being loaded. They are also due after 32 reads that
    /// used part of a footer: such reads mostly hit the segments read most, and only other
    /// checksums are evicted for them.
    pub fn is_load_due(&mut self, bytes: u64) -> bool {
        let room = self.room.unwrap_or(u64::MAX);
        let on_their_way = bytes * self.loading.len() as u64;
        self.missed += 1;
        let fits_beside = |others: u64| others + bytes <= room;
        let due = fits_beside(self.bytes + on_their_way)
            || (fits_beside(on_their_way) && self.missed >= MISSES_A_LOAD);
        if due {
            self.missed = 0;
        }
        due
    }

    /// Evicts the least recently used checksums until at most `budget` bytes are held. From now on,
    /// checksums are loaded because there is room until `room` bytes are held.
    pub fn shrink_to(&mut self, budget: u64, room: u64) {
        self.room = Some(room);
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
