//! A device in memory that keeps only what is not zero: with payloads of zeroes, what the store
//! itself writes. So a store of any size fits into memory, and the store's own memory can be told
//! from the device's.

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use super::{Keep, Memory};

/// See the module.
pub type ThinDevice = Memory<Thin>;

/// The blocks of a zone that are not zero, by offset. Zones are written in order, so they come in
/// order.
type Kept = Vec<(u32, Box<[u8]>)>;

/// What each zone keeps.
pub struct Thin {
    zone_blocks: u64,
    zones: Vec<Kept>,
}

/// Whether all bytes are zero.
pub fn is_zero(block: &[u8]) -> bool {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("it has eight bytes"));
    block.chunks(256).all(|part| part.chunks_exact(8).fold(0, |all, next| all | word(next)) == 0)
}

impl Keep for Thin {
    fn keep(&mut self, at: Pba, data: &[Bytes]) {
        let zone = &mut self.zones[at.zone(self.zone_blocks).0 as usize];
        let blocks = data.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
        for (offset, block) in (at.offset(self.zone_blocks) as u32..).zip(blocks) {
            if !is_zero(block) {
                assert!(
                    zone.last().is_none_or(|(last, _)| *last < offset),
                    "zones are appended to"
                );
                zone.push((offset, block.into()));
            }
        }
    }

    fn fetch(&self, from: Pba, buffer: &mut [u8]) {
        buffer.fill(0);
        let first = from.offset(self.zone_blocks) as u32;
        let blocks = (buffer.len() / BLOCK_BYTES) as u32;
        let zone = &self.zones[from.zone(self.zone_blocks).0 as usize];
        let behind = zone.partition_point(|(offset, _)| *offset < first);
        for (offset, block) in zone[behind..].iter().take_while(|(at, _)| at - first < blocks) {
            let start = (offset - first) as usize * BLOCK_BYTES;
            buffer[start..start + BLOCK_BYTES].copy_from_slice(block);
        }
    }

    fn forget(&mut self, zone: ZoneId) {
        self.zones[zone.0 as usize] = Kept::new();
    }
}

impl ThinDevice {
    /// A new device of `zones` zones of `zone_blocks` blocks.
    pub fn of_zones(zones: u32, zone_blocks: u64) -> Self {
        let empty = vec![Kept::new(); zones as usize];
        let thin = Thin { zone_blocks, zones: empty };
        Memory::new("thin memory", zones, zone_blocks, 2048, thin)
    }

    /// Bytes of memory that the device takes for what it keeps.
    pub fn bytes(&self) -> usize {
        let state = self.state.borrow();
        let of_zone = |kept: &Kept| {
            kept.len() * BLOCK_BYTES + kept.capacity() * size_of::<(u32, Box<[u8]>)>()
        };
        state.kept.zones.iter().map(of_zone).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_and_zeroes_take_no_room() {
        let device = ThinDevice::of_zones(2, 16);
        super::super::tests::keeps(device.clone());
        assert!((BLOCK_BYTES..2 * BLOCK_BYTES).contains(&device.bytes()));
    }
}
