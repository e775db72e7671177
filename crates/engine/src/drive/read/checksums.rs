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
        // They grew with their segment; what they have room for beyond would stay unaccounted.
        values.shrink_to_fit();
        Sums(Rc::new(values))
    }

    /// Those of some blocks; none past the end.
    pub fn get(&self, range: Range<u64>) -> Option<&[u32]> {
        self.0.get(range.start as usize..range.end as usize)
    }

    /// Asks the processor for those of some blocks, which are compared soon.
    pub fn prefetch(&self, range: Range<u64>) {
        self.get(range).into_iter().for_each(prefetch_slice);
    }

    /// The first block from `from` on that has none.
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
    /// Up to how much is loaded because there is room, if that was ever said.
    room: Option<u64>,
    /// Reads that took their checksums out of parts of footers since those of a segment were loaded.
    missed: u64,
}

/// Reads that take their checksums out of parts of footers before the whole of one is loaded.
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

    /// As [`get`](Self::get), which does not count as a use.
    pub fn peek(&self, zone: ZoneId) -> Option<&Sums> {
        self.segments.get(&zone).map(|cached| &cached.sums)
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

    /// Whether a segment's checksums, so many bytes, are worth loading for the sake of one read: there is
    /// room for them beside the others and those on their way, or many reads missed some, of those
    /// segments, as a rule, that are read more than others, and only others that are held would have to go.
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

    /// Drops what was used longest ago until at most `budget` bytes are held. From now on more are loaded
    /// because there is room until `room` bytes are held.
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
