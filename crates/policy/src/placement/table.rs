//! What policies remember of addresses, in bounded memory.

use mjolnir_units::TreeId;

/// Slots of a set: an address is looked for in one set.
const WAYS: usize = 8;

/// One address.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Tells addresses of a set apart; 0 for an empty slot. Two addresses of four billion look
    /// alike, and then share what is remembered.
    tag: u32,
    /// Low bits of the sequence number at which it was last set.
    seen: u32,
    value: u32,
}

/// A table of fixed size from an address to a value and the time when it was set. Where a set is
/// full, what was not set for longest is forgotten.
#[derive(Clone, Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
}

/// What is remembered of an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub value: u32,
    /// Sequence numbers since it was set; right up to four billion.
    pub age: u32,
}

impl Table {
    /// Room for `wanted` addresses, as far as they fit `bytes_max`; but for one set.
    pub fn new(wanted: u64, bytes_max: u64) -> Self {
        let slots = wanted.min(bytes_max / size_of::<Slot>() as u64) as usize;
        // A power of two, and none that is too large.
        let sets = (slots / WAYS + 1).next_power_of_two() / 2;
        Table { slots: vec![Slot::default(); sets.max(1) * WAYS] }
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    fn find(&self, volume: TreeId, at: u64) -> (usize, u32) {
        let hash = mix(at ^ mix(u64::from(volume.0) + 1));
        let set = hash as usize & (self.slots.len() / WAYS - 1);
        (set * WAYS, ((hash >> 32) as u32).max(1))
    }

    pub fn get(&self, volume: TreeId, at: u64, now: u64) -> Option<Memory> {
        let (first, tag) = self.find(volume, at);
        let slot = self.slots[first..first + WAYS].iter().find(|slot| slot.tag == tag)?;
        Some(Memory { value: slot.value, age: (now as u32).wrapping_sub(slot.seen) })
    }

    pub fn set(&mut self, volume: TreeId, at: u64, now: u64, value: u32) {
        let (first, tag) = self.find(volume, at);
        let now = now as u32;
        let set = &mut self.slots[first..first + WAYS];
        let place = set.iter().position(|slot| slot.tag == tag).unwrap_or_else(|| {
            let unused = |slot: &Slot| match slot.tag {
                0 => u64::MAX,
                _ => u64::from(now.wrapping_sub(slot.seen)),
            };
            (0..WAYS).max_by_key(|&way| unused(&set[way])).expect("a set has slots")
        });
        set[place] = Slot { tag, seen: now, value };
    }
}

/// Spreads a number over all bits (the finalizer of Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_found_and_the_longest_unused_is_forgotten() {
        let mut table = Table::new(WAYS as u64, 1 << 20);
        for at in 0..WAYS as u64 {
            table.set(TreeId(3), at, 10 + at, at as u32);
        }
        table.set(TreeId(3), 0, 50, 100);
        assert_eq!(
            table.get(TreeId(3), 0, 60).map(|found| (found.value, found.age)),
            Some((100, 10))
        );
        assert!(table.get(TreeId(4), 0, 60).is_none(), "another volume");
        table.set(TreeId(3), 99, 61, 7);
        assert!(table.get(TreeId(3), 1, 61).is_none(), "set at 11, before all others");
        let kept = [0, 2, 3, 4, 5, 6, 7, 99];
        assert!(kept.iter().all(|&at| table.get(TreeId(3), at, 61).is_some()));
    }

    #[test]
    fn memory_has_its_bound() {
        let mut table = Table::new(u64::MAX, 50_000);
        let bytes = table.bytes();
        assert!((25_000..=50_000).contains(&bytes), "{bytes}");
        (0..100_000).for_each(|at| table.set(TreeId(1), at, at, 0));
        assert_eq!(table.bytes(), bytes);
    }
}
