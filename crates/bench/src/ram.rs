//! A device in memory that does no more than it must: it copies, into memory that it keeps. What
//! is measured on it is the store.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Sealing, ZoneTable};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

/// See the module. Clones are handles of one device. Requests complete at once. Its memory is
/// touched when it is first written, and kept by resets: measure from the second use on.
#[derive(Clone)]
pub struct RamDevice {
    state: Rc<RefCell<State>>,
}

struct State {
    table: ZoneTable,
    bytes: Vec<u8>,
    root: Option<Bytes>,
}

impl RamDevice {
    /// A new device of `zones` zones of `zone_blocks` blocks.
    pub fn of_zones(zones: u32, zone_blocks: u64) -> Self {
        let info = DeviceInfo {
            name: "memory".into(),
            uuid: *b"mjolnir in memor",
            zone_blocks,
            zones,
            append_blocks_max: zone_blocks.min(1024),
            queue_depth: 32,
            open_zones_max: None,
            sealing: Sealing::Free,
        };
        let bytes = vec![0; info.bytes() as usize];
        let state = State { table: ZoneTable::new(info), bytes, root: None };
        RamDevice { state: Rc::new(RefCell::new(state)) }
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
        for byte in self.state.borrow_mut().bytes.iter_mut().step_by(BLOCK_BYTES) {
            *std::hint::black_box(byte) = 1;
        }
        self
    }
}

impl Device for RamDevice {
    fn info(&self) -> DeviceInfo {
        self.state.borrow().table.info().clone()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let state = &mut *self.state.borrow_mut();
        let claimed = state.table.claim(at, &data).map(|_| {
            let mut start = at.0 as usize * BLOCK_BYTES;
            for piece in data {
                state.bytes[start..start + piece.len()].copy_from_slice(&piece);
                start += piece.len();
            }
            at
        });
        std::future::ready(claimed)
    }

    fn read(
        &self,
        from: Pba,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let state = self.state.borrow();
        let checked = state.table.check_read(from, buffer.len()).map(|_| {
            let start = from.0 as usize * BLOCK_BYTES;
            let length = buffer.len();
            buffer.as_mut().copy_from_slice(&state.bytes[start..start + length]);
        });
        std::future::ready(checked.map(|()| buffer))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        std::future::ready(Ok(()))
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        std::future::ready(self.state.borrow_mut().table.seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let state = &mut *self.state.borrow_mut();
        let begun = state.table.begin_reset(zone).map(|ticket| state.table.end_reset(ticket));
        std::future::ready(begun)
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        std::future::ready(Ok(self.state.borrow().root.clone()))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        // A copy: what the caller sent may be a slice of something large.
        self.state.borrow_mut().root = Some(Bytes::copy_from_slice(&root));
        std::future::ready(Ok(()))
    }

    fn grow(&self, _bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let why = "this memory does not grow; make a larger device";
        std::future::ready(Err(DeviceError::new(ErrorKind::Invalid, why)))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_host::HostRuntime;

    use super::*;

    #[test]
    fn what_was_appended_is_read() {
        mjolnir_host::run(async |_: HostRuntime| {
            let device = RamDevice::of_zones(2, 16).touched();
            device.reset(ZoneId(1)).await.unwrap();
            let data: Vec<u8> = (0..3 * BLOCK_BYTES).map(|at| at as u8).collect();
            let pieces = vec![
                Bytes::from(data[..BLOCK_BYTES].to_vec()),
                data[BLOCK_BYTES..].to_vec().into(),
            ];
            assert_eq!(device.append(Pba(16), pieces).await.unwrap(), Pba(16));
            assert!(device.append(Pba(16), vec![data.clone().into()]).await.is_err());
            let read = device.read(Pba(16), AlignedBuf::zeroed(data.len())).await.unwrap();
            assert_eq!(read.as_ref(), data);
        });
    }
}
