//! How many of what a NAND array has, and how its parts are numbered.

use serde::Deserialize;

/// The parts of a NAND array.
///
/// Dies are numbered channel first: die `d` hangs on channel `d % channels`, so that neighbours
/// in number share as little as possible. Erase blocks are numbered through the planes of die 0,
/// then those of die 1, and so on; pages through their erase blocks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses between controller and chips.
    pub channels: u32,
    /// Chips (packages) on each bus.
    pub chips_per_channel: u32,
    /// Dies in each chip: the units that work on their own.
    pub dies_per_chip: u32,
    /// Planes of each die: pools of erase blocks within which copy-back works.
    pub planes_per_die: u32,
    /// Erase blocks of each plane.
    pub blocks_per_plane: u32,
    /// Pages of each erase block.
    pub pages_per_block: u32,
    /// Bytes of data in a page.
    pub page_bytes: u32,
    /// Out-of-band bytes of a page. They cross the bus with its data.
    pub spare_bytes: u32,
    /// Pages that one program operation writes together (one-shot programming): 1 where each page
    /// is programmed on its own.
    #[serde(default = "one")]
    pub pages_per_program: u32,
}

fn one() -> u32 {
    1
}

impl Geometry {
    /// Dies in all.
    pub fn dies(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip
    }

    /// Planes in all.
    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Erase blocks in all.
    pub fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }

    /// Pages in all.
    pub fn pages(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.pages_per_block)
    }

    /// Bytes of data that all pages hold together.
    pub fn bytes(&self) -> u64 {
        self.pages() * u64::from(self.page_bytes)
    }

    /// The bus on which a die hangs.
    pub fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// The plane, counted through all dies, that holds an erase block.
    pub fn plane_of(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    /// The die that holds an erase block.
    pub fn die_of(&self, block: u32) -> u32 {
        self.plane_of(block) / self.planes_per_die
    }
}
