//! The Device contract.

use std::future::{Future, ready};

use bytes::Bytes;
use mjolnir_units::{Pba, ZoneId};

use crate::abilities::NoAbilities;
use crate::{Abilities, AlignedBuf, DeviceError, DeviceInfo, ErrorKind};

/// Zones that are appended to and reset whole, and a small root that is replaced atomically.
///
/// # Contract
///
/// * **Placement.** An append carries the address that the caller expects: the zone's write pointer
///   after every earlier call to [`append`](Device::append) for that zone, finished or not. The
///   order of *calls* decides (not of polling), so an implementation claims the address before it
///   returns the future. Any other address is [`Invalid`](crate::ErrorKind::Invalid). The
///   completion returns the address of the data. A request refused as invalid changes nothing. An
///   append that fails in any other way keeps its claim, and the content of its blocks is
///   unspecified. It may be made [again](Device::append_again). An append has at least one block.
/// * **Volatility.** A completed append can be read at once, but may be lost, wholly or in part,
///   in any order, by a power cut until it is durable: after a [`flush`](Device::flush) that was
///   called after the append completed, or, on a device whose sealing is
///   [`Durable`](crate::Sealing::Durable), after the seal. Blocks are never torn: each of the
///   append's blocks is either old or new after a power cut.
/// * **Sealing** ends a zone at any length; a sealed zone takes no appends until it is reset.
/// * **Reset** makes a zone empty; it takes appends once the reset has completed. Its old blocks
///   must not be read any more: a read of a block at or past the write pointer returns unspecified
///   bytes, but does not panic. After a crash an unflushed reset may have happened or not.
/// * **Release** ends a zone as a seal does, and returns its bytes to the device's medium, where
///   possible. The zone takes appends again after a reset, which waits for the release; until then
///   a read returns unspecified bytes, but does not panic. After a crash an unflushed release may
///   have happened or not. The caller has no append to the zone in flight.
/// * **Re-opening.** The write pointer of a zone that was open when the device went away is unknown
///   to some devices (a file): such a zone is treated as sealed, its readable blocks stay readable,
///   and it takes appends again only after a reset. This holds for every zone that was not reset
///   since the device was opened: so *every zone starts sealed*, whatever its content, and a caller
///   resets it before the first append.
/// * **Root.** [`write_root`](Device::write_root) is atomic and durable when it completes; a
///   crash leaves the old or the new one. It implies no flush of zones. At most
///   [`ROOT_BYTES_MAX`](Device::ROOT_BYTES_MAX) bytes.
/// * Futures may be dropped; the I/O then completes or not, and memory stays sound.
pub trait Device: 'static {
    /// The longest root, in bytes.
    const ROOT_BYTES_MAX: usize = 4000;

    /// Shape and limits.
    fn info(&self) -> DeviceInfo;

    /// The abilities and hints of single kinds of devices. A device without any leaves this method out; a device
    /// with some implements [`Abilities`] and returns itself; a filter returns those of the device below it.
    fn abilities(&self) -> &dyn Abilities {
        &NoAbilities
    }

    /// Appends `data` (pieces of whole blocks, each starting at a multiple of the block size in
    /// memory or copied by the device) at the write pointer `at`. Returns the address of the data.
    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static;

    /// Makes an append that failed again, with the same data at the same address. Appends behind it may
    /// have been made since, and it may have been refused before it claimed the address; the zone was
    /// neither sealed nor reset. A device whose zones take blocks in order alone refuses it as
    /// [`Invalid`](crate::ErrorKind::Invalid).
    fn append_again(
        &self,
        at: Pba,
        _data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let why = format!("{} makes no append at {at} again", self.info().name);
        ready(Err(DeviceError::new(ErrorKind::Invalid, why)))
    }

    /// Fills `buffer`, a whole number of blocks, from `from` on. The range stays within a zone.
    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static;

    /// Makes all appends, seals and resets that completed before the call durable.
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static;

    /// Ends the zone at its present length. The caller has no append to the zone in flight.
    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static;

    /// Empties the zone, and tells the medium that its bytes are no longer needed.
    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static;

    /// Ends the zone, and returns its bytes to the medium if the device [can](Abilities::gives_back).
    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.seal(zone)
    }

    /// The root last written; `None` before the first.
    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static;

    /// Replaces the root.
    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static;

    /// Raises the number of zones to what fits in `bytes` (what the container needs for itself
    /// included), durably; never lowers it. Returns the new number. A device that cannot refuses it as
    /// [`Invalid`](crate::ErrorKind::Invalid).
    fn grow(&self, _bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let why = format!("{} cannot grow", self.info().name);
        ready(Err(DeviceError::new(ErrorKind::Invalid, why)))
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::MemoryDevice;

    /// A device that has nothing but what it must have.
    struct Least(MemoryDevice);

    impl Device for Least {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }
        fn append(
            &self,
            at: Pba,
            data: Vec<Bytes>,
        ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
            self.0.append(at, data)
        }
        fn read(
            &self,
            from: Pba,
            buffer: AlignedBuf,
        ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
            self.0.read(from, buffer)
        }
        fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
            self.0.flush()
        }
        fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
            self.0.seal(zone)
        }
        fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
            self.0.reset(zone)
        }
        fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
            self.0.read_root()
        }
        fn write_root(
            &self,
            root: Bytes,
        ) -> impl Future<Output = Result<(), DeviceError>> + 'static {
            self.0.write_root(root)
        }
    }

    #[test]
    fn eight_methods_make_a_device_and_the_rest_has_answers() {
        block_on(async {
            let device = Least(MemoryDevice::of_zones(4, 8));
            let abilities = device.abilities();
            assert_eq!(abilities.block_checksum()(b"123456789"), 0xe306_9283, "CRC-32C");
            assert_eq!((abilities.erases(ZoneId(0)), abilities.held_bytes()), (None, None));
            assert_eq!((abilities.missing_from(), abilities.gives_back()), (None, false));
            assert!(!abilities.is_root_in_doubt());
            let refused = device.grow(1 << 30).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Invalid);
            assert!(refused.context.ends_with("cannot grow"), "{refused}");
            // To release a zone is to seal it.
            device.reset(ZoneId(1)).await.unwrap();
            device.append(Pba(8), vec![Bytes::from(vec![1; 4096])]).await.unwrap();
            device.release(ZoneId(1)).await.unwrap();
            let refused = device.append(Pba(9), vec![Bytes::from(vec![1; 4096])]).await;
            assert_eq!(refused.unwrap_err().kind, ErrorKind::Invalid);
        });
    }
}
