//! Logical and physical addresses.

use std::fmt;

/// A logical block address within one volume or snapshot, counted in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A physical block address on one device, counted in blocks from the start of zone 0.
///
/// Zone `z` of a device whose zones have `n` blocks spans `z * n .. (z + 1) * n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pba(pub u64);

/// The number of a zone on a device, and of the segment that fills it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

/// Names one tree of the map: a volume, a snapshot, or blocks staged for a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

impl Lba {
    /// The address `blocks` further on.
    pub fn plus(self, blocks: u64) -> Self {
        Lba(self.0 + blocks)
    }
}

impl Pba {
    /// The highest address that a map entry can hold (47 bits: 512 PiB of 4 KiB blocks).
    pub const MAX: Pba = Pba((1 << 47) - 1);

    /// The address `blocks` further on.
    pub fn plus(self, blocks: u64) -> Self {
        Pba(self.0 + blocks)
    }

    /// The zone that holds this block, on a device of `zone_blocks` blocks a zone.
    pub fn zone(self, zone_blocks: u64) -> ZoneId {
        ZoneId((self.0 / zone_blocks) as u32)
    }

    /// The block's offset within its zone, in blocks.
    pub fn offset(self, zone_blocks: u64) -> u64 {
        self.0 % zone_blocks
    }
}

impl ZoneId {
    /// The first block of the zone, on a device of `zone_blocks` blocks a zone.
    pub fn start(self, zone_blocks: u64) -> Pba {
        Pba(u64::from(self.0) * zone_blocks)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lba {}", self.0)
    }
}

impl fmt::Display for Pba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device block {}", self.0)
    }
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}
