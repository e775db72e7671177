//! A device whose kind is known only at run time.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_units::{Pba, ZoneId};

use crate::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo};

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>>>>;

/// Any device behind one type, for an allocation a request: what is generic over devices is compiled
/// once for all that are used so. Clones are handles of one device.
#[derive(Clone)]
pub struct AnyDevice(Rc<dyn Erased>);

impl AnyDevice {
    /// Takes the device over.
    pub fn new(device: impl Device) -> Self {
        AnyDevice(Rc::new(device))
    }
}

/// [`Device`] without what keeps it from being used as `dyn`. Named apart, so that on a device
/// no call means either.
trait Erased {
    fn erased_info(&self) -> DeviceInfo;
    fn erased_abilities(&self) -> &dyn Abilities;
    fn erased_append(&self, at: Pba, data: Vec<Bytes>) -> Answer<Pba>;
    fn erased_append_again(&self, at: Pba, data: Vec<Bytes>) -> Answer<Pba>;
    fn erased_read(&self, from: Pba, buffer: AlignedBuf) -> Answer<AlignedBuf>;
    fn erased_flush(&self) -> Answer<()>;
    fn erased_seal(&self, zone: ZoneId) -> Answer<()>;
    fn erased_reset(&self, zone: ZoneId) -> Answer<()>;
    fn erased_release(&self, zone: ZoneId) -> Answer<()>;
    fn erased_read_root(&self) -> Answer<Option<Bytes>>;
    fn erased_write_root(&self, root: Bytes) -> Answer<()>;
    fn erased_grow(&self, bytes: u64) -> Answer<u32>;
}

impl<D: Device> Erased for D {
    fn erased_info(&self) -> DeviceInfo {
        self.info()
    }
    fn erased_abilities(&self) -> &dyn Abilities {
        self.abilities()
    }
    fn erased_append(&self, at: Pba, data: Vec<Bytes>) -> Answer<Pba> {
        Box::pin(self.append(at, data))
    }
    fn erased_append_again(&self, at: Pba, data: Vec<Bytes>) -> Answer<Pba> {
        Box::pin(self.append_again(at, data))
    }
    fn erased_read(&self, from: Pba, buffer: AlignedBuf) -> Answer<AlignedBuf> {
        Box::pin(self.read(from, buffer))
    }
    fn erased_flush(&self) -> Answer<()> {
        Box::pin(self.flush())
    }
    fn erased_seal(&self, zone: ZoneId) -> Answer<()> {
        Box::pin(self.seal(zone))
    }
    fn erased_reset(&self, zone: ZoneId) -> Answer<()> {
        Box::pin(self.reset(zone))
    }
    fn erased_release(&self, zone: ZoneId) -> Answer<()> {
        Box::pin(self.release(zone))
    }
    fn erased_read_root(&self) -> Answer<Option<Bytes>> {
        Box::pin(self.read_root())
    }
    fn erased_write_root(&self, root: Bytes) -> Answer<()> {
        Box::pin(self.write_root(root))
    }
    fn erased_grow(&self, bytes: u64) -> Answer<u32> {
        Box::pin(self.grow(bytes))
    }
}

impl Device for AnyDevice {
    fn info(&self) -> DeviceInfo {
        self.0.erased_info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self.0.erased_abilities()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.0.erased_append(at, data)
    }
    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.0.erased_append_again(at, data)
    }
    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        self.0.erased_read(from, buffer)
    }
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.0.erased_flush()
    }
    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.0.erased_seal(zone)
    }
    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.0.erased_reset(zone)
    }
    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.0.erased_release(zone)
    }
    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.0.erased_read_root()
    }
    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.0.erased_write_root(root)
    }
    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.0.erased_grow(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    /// Unlike others in all that has an answer of its own unless told otherwise.
    struct Odd(MemoryDevice);

    impl Device for Odd {
        fn abilities(&self) -> &dyn Abilities {
            self
        }
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
        fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
            self.0.grow(bytes)
        }
    }

    impl Abilities for Odd {
        fn block_checksum(&self) -> fn(&[u8]) -> u32 {
            |_| 7
        }
        fn erases(&self, zone: ZoneId) -> Option<u32> {
            Some(zone.0 + 1)
        }
        fn is_root_in_doubt(&self) -> bool {
            true
        }
        fn missing_from(&self) -> Option<Pba> {
            Some(Pba(7))
        }
        fn gives_back(&self) -> bool {
            true
        }
        fn held_bytes(&self) -> Option<u64> {
            Some(7)
        }
    }

    #[test]
    fn what_a_device_says_of_itself_is_passed_on() {
        let any = AnyDevice::new(Odd(MemoryDevice::of_zones(4, 16)));
        assert_eq!((any.abilities().block_checksum())(b"a block"), 7);
        assert_eq!(any.abilities().erases(ZoneId(2)), Some(3));
        assert!(any.abilities().is_root_in_doubt());
        assert_eq!(any.abilities().missing_from(), Some(Pba(7)));
        assert!(any.abilities().gives_back());
        assert_eq!(any.abilities().held_bytes(), Some(7));
        assert_eq!(any.info().zones, 4);
    }
}
