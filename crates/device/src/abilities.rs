//! What single kinds of devices can and tell besides what all do.

use mjolnir_units::{Pba, ZoneId};

/// What a device can and tells besides, each with the answer of a device that has nothing to say.
///
/// An engine asks whenever it wants to know: some answers change while a device is open.
pub trait Abilities {
    /// What a store sums the content of a block with, to see later whether it still holds what was
    /// written: a pure function of the block. CRC-32C of all bytes, unless the device keeps less of
    /// a block than that (the lab's simulated flash, which carries no payload).
    fn block_checksum(&self) -> fn(&[u8]) -> u32 {
        crc32c::crc32c
    }

    /// How often the zone's flash was erased, of a device that leaves its wear to the store; `None` of
    /// all others, which level it themselves.
    fn erases(&self, _zone: ZoneId) -> Option<u32> {
        None
    }

    /// Whether a copy of the root is damaged or cannot be read, so that what [`read_root`] gives may be
    /// older than the last one that was durable.
    ///
    /// [`read_root`]: crate::Device::read_root
    fn is_root_in_doubt(&self) -> bool {
        false
    }

    /// The first block that the medium has not all of, of a device that was opened for reading although its
    /// medium has become shorter. What is missing reads as zeroes, as it would if the medium was made as
    /// long again.
    fn missing_from(&self) -> Option<Pba> {
        None
    }

    /// Whether [`release`](crate::Device::release) gives anything back. A device that finds that it cannot says no
    /// from then on.
    fn gives_back(&self) -> bool {
        false
    }

    /// A flush failed. Whether a later one that works makes durable all that was written since the last
    /// one that worked, as far as it can still be read. A system that drops what it could not write, and
    /// goes on to show it to readers, says no.
    fn flushes_again(&self) -> bool {
        false
    }

    /// The caller knows that a flush failed, and verifies what it wrote: later flushes count again, on a
    /// device of which [`flushes_again`](Self::flushes_again) is true.
    fn forgive_failed_flush(&self) {}

    /// Whether an append that failed can be made [again](crate::Device::append_again) at its place. Where zones
    /// take blocks in order alone, it ends its zone.
    fn appends_again(&self) -> bool {
        false
    }

    /// Bytes that the device takes of what it lies on, where that is known and may be less than its size.
    fn held_bytes(&self) -> Option<u64> {
        None
    }
}

/// Those of a device that has none.
pub(crate) struct NoAbilities;

impl Abilities for NoAbilities {}
