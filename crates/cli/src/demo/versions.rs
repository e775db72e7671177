//! Which version each block of a volume has, and who may change it.
//!
//! The volume is cut into slots of 64 KiB, dealt out to the writers in turn. Only a slot's owner
//! touches it, with one request at a time, so each writer knows its blocks' versions without a
//! lock.

use std::ops::RangeInclusive;

use mjolnir_units::BLOCK_SIZE;

/// Blocks in a slot: the longest request.
pub const SLOT_BLOCKS: u64 = 16;

/// How a volume is dealt out.
#[derive(Clone, Copy, Debug)]
pub struct Deal {
    /// How many writers there are.
    pub writers: u64,
    /// Slots that each of them owns.
    pub slots_each: u64,
}

impl Deal {
    /// Deals out a volume of at most `bytes`.
    pub fn of(bytes: u64, writers: u64) -> Self {
        Deal { writers, slots_each: bytes / (SLOT_BLOCKS * BLOCK_SIZE * writers) }
    }

    /// Blocks in the volume.
    pub fn blocks(&self) -> u64 {
        self.writers * self.slots_each * SLOT_BLOCKS
    }

    /// Bytes in the volume.
    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_SIZE
    }

    /// Where a writer's own `block` (slot by slot) is in the volume.
    pub fn in_volume(&self, writer: u64, block: u64) -> u64 {
        let (slot, within) = (block / SLOT_BLOCKS, block % SLOT_BLOCKS);
        (slot * self.writers + writer) * SLOT_BLOCKS + within
    }

    /// Puts the writers' tables together, in the order of the volume.
    fn gather(&self, tables: &[Vec<u32>]) -> Vec<u32> {
        assert_eq!(tables.len() as u64, self.writers);
        let mut all = vec![0; self.blocks() as usize];
        for (writer, table) in tables.iter().enumerate() {
            for (block, version) in table.iter().enumerate() {
                all[self.in_volume(writer as u64, block as u64) as usize] = *version;
            }
        }
        all
    }
}

/// What versions the blocks of a volume or snapshot may have.
pub struct Versions {
    oldest: Vec<u32>,
    newest: Vec<u32>,
}

impl Versions {
    /// From the writers' tables, while nothing is being written.
    pub fn exact(deal: &Deal, tables: &[Vec<u32>]) -> Self {
        Self::between(deal, tables, tables)
    }

    /// For a snapshot taken while writing went on: it holds at least what had been acknowledged
    /// before it was asked for, and at most what had been sent when it was done.
    pub fn between(deal: &Deal, acknowledged: &[Vec<u32>], sent: &[Vec<u32>]) -> Self {
        Versions { oldest: deal.gather(acknowledged), newest: deal.gather(sent) }
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.oldest.len() as u64
    }

    /// What `block` may have.
    pub fn allowed(&self, block: u64) -> RangeInclusive<u32> {
        self.oldest[block as usize]..=self.newest[block as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_owner() {
        let deal = Deal::of(3 << 20, 4);
        let mut owners = vec![0; deal.blocks() as usize];
        for writer in 0..deal.writers {
            for block in 0..deal.slots_each * SLOT_BLOCKS {
                owners[deal.in_volume(writer, block) as usize] += 1;
            }
        }
        assert!(owners.iter().all(|count| *count == 1));
        assert_eq!(deal.bytes(), 3 << 20);
    }

    #[test]
    fn tables_come_together_in_the_order_of_the_volume() {
        let deal = Deal { writers: 2, slots_each: 2 };
        let table = |start: u32| (start..start + 32).collect::<Vec<u32>>();
        let versions = Versions::between(&deal, &[table(0), table(100)], &[table(1), table(101)]);
        assert_eq!(versions.allowed(0), 0..=1);
        assert_eq!(versions.allowed(16), 100..=101);
        assert_eq!(versions.allowed(32 + 3), 19..=20);
        assert_eq!(versions.blocks(), 64);
    }
}
