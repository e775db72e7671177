//! The place of a map node on media: its block, and the grains of the block that hold it, in 64
//! bits.

use mjolnir_device::DeviceInfo;
use mjolnir_map::BaseBefore;
use mjolnir_store::Error;
use mjolnir_units::{BLOCK_SIZE, Pba};

use crate::fault;

/// Nodes (or pages of the node table) written per step: other tasks get a turn in between.
pub(crate) const NODES_A_STEP: usize = 128;

/// Images start and end at multiples of this many bytes.
pub(crate) const GRAIN: u64 = 64;

const GRAINS_BITS: u32 = 12;

const _: () = assert!(mjolnir_map::IMAGE_BYTES_MAX as u64 / GRAIN < 1 << GRAINS_BITS);

/// A node-table entry whose place is unknown, because its page of the table was lost.
pub(crate) const LOST: u64 = u64::MAX;

/// A place on media: `bytes` bytes from `offset` in block `pba` on, perhaps into the next blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub pba: Pba,
    pub offset: u64,
    pub bytes: u64,
}

impl Place {
    /// Packs the place: 46 bits of block, 6 of offset, 12 of length.
    pub fn pack(self) -> u64 {
        let (offset, grains) = (self.offset / GRAIN, self.bytes / GRAIN);
        assert!(self.offset.is_multiple_of(GRAIN) && self.offset < BLOCK_SIZE);
        assert!(self.bytes.is_multiple_of(GRAIN) && grains > 0 && grains < 1 << GRAINS_BITS);
        (((self.pba.0 << 6) | offset) << GRAINS_BITS) | grains
    }

    pub fn unpack(packed: u64) -> Self {
        let grains = packed & ((1 << GRAINS_BITS) - 1);
        let at = packed >> GRAINS_BITS;
        Place { pba: Pba(at >> 6), offset: (at & 63) * GRAIN, bytes: grains * GRAIN }
    }

    /// Refuses a place that is not on the device.
    pub fn check(self, info: &DeviceInfo) -> Result<(), Error> {
        let within = self.bytes > 0
            && self.offset < BLOCK_SIZE
            && self.pba.0.checked_add(self.blocks()).is_some_and(|end| end <= info.blocks())
            && self.pba.offset(info.zone_blocks) + self.blocks() <= info.zone_blocks;
        match within {
            true => Ok(()),
            false => Err(fault::damaged(format!(
                "the checkpoint names {}, {} bytes from {}, which is no place on the device",
                self.pba, self.bytes, self.offset
            ))),
        }
    }

    /// The address of its first byte on the device.
    pub(crate) fn byte(self) -> u64 {
        self.pba.0 * BLOCK_SIZE + self.offset
    }

    /// The place of the base that the image here shares words with, or the reason why it is
    /// invalid.
    pub fn base(self, base: BaseBefore, zone_blocks: u64) -> Result<Place, String> {
        let BaseBefore { back, bytes } = base;
        let bytes = bytes as u64;
        let begin = self.pba.zone(zone_blocks).start(zone_blocks).0 * BLOCK_SIZE;
        match self.byte().checked_sub(back).filter(|from| *from >= begin && bytes <= back) {
            Some(from) => {
                Ok(Place { pba: Pba(from / BLOCK_SIZE), offset: from % BLOCK_SIZE, bytes })
            }
            None => Err(format!(
                "has {bytes} bytes in common with others, {back} before it, where its base cannot \
                 lie"
            )),
        }
    }

    /// Number of blocks that it touches.
    pub fn blocks(self) -> u64 {
        (self.offset + self.bytes).div_ceil(BLOCK_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_packing() {
        for place in [
            Place { pba: Pba(1), offset: 0, bytes: 64 },
            Place { pba: Pba((1 << 46) - 1), offset: 4032, bytes: 64 * 4095 },
        ] {
            assert_eq!(Place::unpack(place.pack()), place);
        }
    }
}
