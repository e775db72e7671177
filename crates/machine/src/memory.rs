//! Devices in memory that do no more than they must, so that what is measured on them is the store:
//! nothing is told apart as volatile or durable, and requests complete at once. They differ in how
//! they keep bytes.

mod ram;
mod thin;

pub use ram::RamDevice;
pub use thin::{ThinDevice, is_zero};

use std::cell::RefCell;
use std::future::{Future, ready};
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Sealing, ZoneTable};
use mjolnir_units::{Pba, ZoneId};

/// How a device keeps bytes. Ranges were checked by the zone table, and stay within a zone.
pub trait Keep: 'static {
    /// Takes what is appended at `at`.
    fn keep(&mut self, at: Pba, data: &[Bytes]);

    /// Fills the buffer with what was kept from `from` on.
    fn fetch(&self, from: Pba, buffer: &mut [u8]);

    /// What the zone held is not needed any more.
    fn forget(&mut self, zone: ZoneId);
}

/// A device in memory. Clones are handles of one device.
pub struct Memory<K> {
    state: Rc<RefCell<State<K>>>,
}

struct State<K> {
    table: ZoneTable,
    kept: K,
    root: Option<Bytes>,
}

impl<K> Clone for Memory<K> {
    fn clone(&self) -> Self {
        Memory { state: self.state.clone() }
    }
}

impl<K: Keep> Memory<K> {
    /// A new device.
    pub fn new(name: &str, zones: u32, zone_blocks: u64, append_blocks_max: u64, kept: K) -> Self {
        let table = ZoneTable::new(DeviceInfo {
            name: name.into(),
            uuid: *b"mjolnir in memor",
            zone_blocks,
            zones,
            append_blocks_max: zone_blocks.min(append_blocks_max),
            queue_depth: 32,
            open_zones_max: None,
            sealing: Sealing::Free,
        });
        Memory { state: Rc::new(RefCell::new(State { table, kept, root: None })) }
    }
}

impl<K: Keep> Device for Memory<K> {
    fn info(&self) -> DeviceInfo {
        self.state.borrow().table.info().clone()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let state = &mut *self.state.borrow_mut();
        let claimed = state.table.claim(at, &data);
        if claimed.is_ok() {
            state.kept.keep(at, &data);
        }
        ready(claimed.map(|_| at))
    }

    fn read(
        &self,
        from: Pba,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let state = self.state.borrow();
        let checked = state.table.check_read(from, buffer.len());
        if checked.is_ok() {
            state.kept.fetch(from, buffer.as_mut());
        }
        ready(checked.map(|_| buffer))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        ready(Ok(()))
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        ready(self.state.borrow_mut().table.seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let state = &mut *self.state.borrow_mut();
        let begun = state.table.begin_reset(zone).map(|ticket| {
            state.kept.forget(zone);
            state.table.end_reset(ticket);
        });
        ready(begun)
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        ready(Ok(self.state.borrow().root.clone()))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        // A copy: what the caller sent may be a slice of something large.
        self.state.borrow_mut().root = Some(Bytes::copy_from_slice(&root));
        ready(Ok(()))
    }

    fn grow(&self, _bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let why = "this memory does not grow; make a larger device";
        ready(Err(DeviceError::new(ErrorKind::Invalid, why)))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_host::HostRuntime;
    use mjolnir_units::BLOCK_BYTES;

    use super::*;

    /// What was appended is read back, and nothing is overwritten. The device has zones of 16
    /// blocks.
    pub fn keeps(device: impl Device) {
        mjolnir_host::run(async |_: HostRuntime| {
            device.reset(ZoneId(1)).await.unwrap();
            let mut data = vec![0; 3 * BLOCK_BYTES];
            data[BLOCK_BYTES + 5] = 9;
            let pieces = vec![
                Bytes::from(data[..BLOCK_BYTES].to_vec()),
                data[BLOCK_BYTES..].to_vec().into(),
            ];
            assert_eq!(device.append(Pba(16), pieces).await.unwrap(), Pba(16));
            assert!(device.append(Pba(16), vec![data.clone().into()]).await.is_err());
            let mut buffer = AlignedBuf::zeroed(data.len());
            buffer.as_mut().fill(3);
            let read = device.read(Pba(16), buffer).await.unwrap();
            assert_eq!(read.as_ref(), data);
        });
    }
}
