//! A device in memory that copies, into memory that it keeps.

use bytes::Bytes;
use mjolnir_device::ZoneTable;
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

use super::{Keep, Memory};

/// See the module. Its memory is touched when it is first written, and kept by resets: measure from
/// the second use on.
pub type RamDevice = Memory<Ram>;

/// All bytes of the device, side by side.
pub struct Ram {
    bytes: Vec<u8>,
}

impl Keep for Ram {
    fn keep(&mut self, at: Pba, data: &[Bytes]) {
        let mut start = at.0 as usize * BLOCK_BYTES;
        for piece in data {
            self.bytes[start..start + piece.len()].copy_from_slice(piece);
            start += piece.len();
        }
    }

    fn fetch(&self, from: Pba, buffer: &mut [u8]) {
        let start = from.0 as usize * BLOCK_BYTES;
        buffer.copy_from_slice(&self.bytes[start..start + buffer.len()]);
    }

    fn forget(&mut self, _zone: ZoneId) {}
}

impl RamDevice {
    /// A new device of `zones` zones of `zone_blocks` blocks.
    pub fn of_zones(zones: u32, zone_blocks: u64) -> Self {
        let bytes = vec![0; zones as usize * zone_blocks as usize * BLOCK_BYTES];
        Memory::new("memory", zones, zone_blocks, 1024, Ram { bytes })
    }

    /// Makes it a new device in the same memory: the identity that what an earlier store left there
    /// names is gone.
    pub fn renew(&self) {
        let state = &mut *self.state.borrow_mut();
        let mut info = state.table.info().clone();
        let number = u64::from_le_bytes(info.uuid[..8].try_into().expect("it has eight bytes"));
        info.uuid[..8].copy_from_slice(&number.wrapping_add(1).to_le_bytes());
        state.table = ZoneTable::new(info);
        state.root = None;
    }

    /// Touches all of its memory, so that no request is the first to.
    pub fn touched(self) -> Self {
        for byte in self.state.borrow_mut().kept.bytes.iter_mut().step_by(BLOCK_BYTES) {
            *std::hint::black_box(byte) = 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read() {
        super::super::tests::keeps(RamDevice::of_zones(2, 16).touched());
    }
}
