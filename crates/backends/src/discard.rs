//! Discards: tells a block device that bytes are no longer needed.

use std::fs::File;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `_IO(0x12, 119)`: takes a start and a length in bytes.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// Discards `length` bytes of a block device from `offset` on. Their content afterwards depends on
/// the device.
pub(crate) fn discard(device: &File, offset: u64, length: u64) -> rustix::io::Result<()> {
    // SAFETY: BLKDISCARD reads two u64 through its argument and writes nothing; on a file that is
    // no block device the kernel refuses it.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) }
}
