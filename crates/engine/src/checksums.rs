//! Checksums of sealed segments, kept in memory within a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mjolnir_units::ZoneId;

/// See the module. An entry costs 4 bytes a block of its segment.
#[derive(Default)]
pub(crate) struct Checksums {
    segments: BTreeMap<ZoneId, Cached>,
    bytes: u64,
    clock: u64,
    loading: BTreeSet<ZoneId>,
}

struct Cached {
    values: Rc<Vec<u32>>,
    used_at: u64,
}

impl Checksums {
    pub fn insert(&mut self, zone: ZoneId, mut values: Vec<u32>) -> Rc<Vec<u32>> {
        self.remove(zone);
        // They grew with their segment; what they have room for beyond would stay unaccounted.
        values.shrink_to_fit();
        self.bytes += 4 * values.len() as u64;
        self.clock += 1;
        let values = Rc::new(values);
        self.segments.insert(zone, Cached { values: values.clone(), used_at: self.clock });
        values
    }

    pub fn get(&mut self, zone: ZoneId) -> Option<Rc<Vec<u32>>> {
        self.clock += 1;
        let cached = self.segments.get_mut(&zone)?;
        cached.used_at = self.clock;
        Some(cached.values.clone())
    }

    pub fn remove(&mut self, zone: ZoneId) {
        if let Some(cached) = self.segments.remove(&zone) {
            self.bytes -= 4 * cached.values.len() as u64;
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
