//! A device in memory that keeps only what is not zero: with payloads of zeroes, what the store
//! itself writes. So a store of any size fits into memory, and the store's own memory can be told
//! from the device's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_device::{AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Sealing, ZoneTable};
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};

/// See the module. Clones are handles of one device. Requests complete at once.
#[derive(Clone)]
pub struct ThinDevice {
    state: Rc<RefCell<State>>,
}

struct State {
    table: ZoneTable,
    /// Of each zone, the blocks that are not zero, by offset.
    zones: Vec<BTreeMap<u32, Box<[u8]>>>,
    root: Option<Bytes>,
}

/// Whether all bytes are zero.
pub fn is_zero(block: &[u8]) -> bool {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("it has eight bytes"));
    block.chunks(256).all(|part| part.chunks_exact(8).fold(0, |all, next| all | word(next)) == 0)
}

impl ThinDevice {
    /// A new device of `zones` zones of `zone_blocks` blocks.
    pub fn of_zones(zones: u32, zone_blocks: u64) -> Self {
        let table = ZoneTable::new(DeviceInfo {
            name: "thin memory".into(),
            uuid: *b"mjolnir is thin.",
            zone_blocks,
            zones,
            append_blocks_max: zone_blocks.min(2048),
            queue_depth: 32,
            open_zones_max: None,
            sealing: Sealing::Free,
        });
        let zones = (0..zones).map(|_| BTreeMap::new()).collect();
        ThinDevice { state: Rc::new(RefCell::new(State { table, zones, root: None })) }
    }

    /// Bytes of memory that the device itself takes, but for the nodes of its trees.
    pub fn bytes(&self) -> usize {
        let state = self.state.borrow();
        let blocks: usize = state.zones.iter().map(BTreeMap::len).sum();
        blocks * (BLOCK_BYTES + size_of::<(u32, Box<[u8]>)>())
    }
}

impl State {
    fn keep(&mut self, at: Pba, data: &[Bytes]) {
        let zone_blocks = self.table.info().zone_blocks;
        let zone = &mut self.zones[at.zone(zone_blocks).0 as usize];
        let blocks = data.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
        for (offset, block) in (at.offset(zone_blocks) as u32..).zip(blocks) {
            if !is_zero(block) {
                zone.insert(offset, block.into());
            }
        }
    }
}

impl Device for ThinDevice {
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
            state.keep(at, &data);
        }
        std::future::ready(claimed.map(|_| at))
    }

    fn read(
        &self,
        from: Pba,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let state = self.state.borrow();
        let checked = state.table.check_read(from, buffer.len()).map(|blocks| {
            let zone_blocks = state.table.info().zone_blocks;
            let first = from.offset(zone_blocks) as u32;
            let zone = &state.zones[from.zone(zone_blocks).0 as usize];
            let bytes = buffer.as_mut();
            bytes.fill(0);
            for (offset, block) in zone.range(first..first + blocks as u32) {
                let start = (offset - first) as usize * BLOCK_BYTES;
                bytes[start..start + BLOCK_BYTES].copy_from_slice(block);
            }
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
        let begun = state.table.begin_reset(zone).map(|ticket| {
            state.zones[zone.0 as usize].clear();
            state.table.end_reset(ticket);
        });
        std::future::ready(begun)
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        std::future::ready(Ok(self.state.borrow().root.clone()))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.state.borrow_mut().root = Some(root);
        std::future::ready(Ok(()))
    }

    fn grow(&self, _bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let why = "thin memory does not grow; make a larger device";
        std::future::ready(Err(DeviceError::new(ErrorKind::Invalid, why)))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_host::HostRuntime;

    use super::*;

    #[test]
    fn it_keeps_the_contract_of_devices() {
        mjolnir_host::run(async |_: HostRuntime| {
            let device = ThinDevice::of_zones(2, 16);
            device.reset(ZoneId(1)).await.unwrap();
            let mut data = vec![0; 3 * BLOCK_BYTES];
            data[BLOCK_BYTES + 5] = 9;
            device.append(Pba(16), vec![Bytes::from(data.clone())]).await.unwrap();
            assert!(device.append(Pba(16), vec![Bytes::from(data.clone())]).await.is_err());
            let read = device.read(Pba(16), AlignedBuf::zeroed(data.len())).await.unwrap();
            assert_eq!(read.as_ref(), data);
            assert!((BLOCK_BYTES..2 * BLOCK_BYTES).contains(&device.bytes()));
        });
    }
}
