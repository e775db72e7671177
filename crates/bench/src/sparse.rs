//! A store's file in which payloads of zeroes take no room, so that a store of a terabyte can be
//! made on a disk of a few gigabytes. Only for making stores: they are measured through the file
//! device itself, which reads the holes as what they are, zeroes.

use std::cell::RefCell;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use mjolnir_backends::{FileDevice, OpenOptions};
use mjolnir_device::{
    AlignedBuf, AnyDevice, Device, DeviceError, DeviceInfo, ErrorKind, ZoneTable,
};
use mjolnir_host::HostRuntime;
use mjolnir_machine::is_zero;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

/// Where the first zone lies in the file, in bytes: docs/internals/container.md.
const ZONES_AT: u64 = 1 << 20;

/// Opens a store's file so that appended zeroes take no room in it.
pub fn open(path: &Path, runtime: &HostRuntime) -> Result<AnyDevice> {
    let inner = FileDevice::open(path, OpenOptions::default(), runtime)?;
    let file = File::options().write(true).open(path).context("opening a store's file")?;
    let table = Rc::new(RefCell::new(ZoneTable::new(inner.info())));
    Ok(AnyDevice::new(SparseDevice { inner, table, file: Arc::new(file) }))
}

/// See the module. A [`FileDevice`], but for appends.
struct SparseDevice {
    inner: FileDevice,
    table: Rc<RefCell<ZoneTable>>,
    file: Arc<File>,
}

/// The runs of blocks that are not zero: where each begins, in bytes from the first, and its bytes.
fn runs(data: &[Bytes]) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    let blocks = data.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
    for (index, block) in blocks.enumerate().filter(|(_, block)| !is_zero(block)) {
        let at = index as u64 * BLOCK_SIZE;
        match runs.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => {
                bytes.extend_from_slice(block);
            }
            _ => runs.push((at, block.to_vec())),
        }
    }
    runs
}

impl Device for SparseDevice {
    fn info(&self) -> DeviceInfo {
        self.table.borrow().info().clone()
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let claimed = self.table.borrow_mut().claim(at, &data);
        let (file, start) = (self.file.clone(), ZONES_AT + at.0 * BLOCK_SIZE);
        let writing = blocking::unblock(move || {
            runs(&data)
                .iter()
                .try_for_each(|(offset, bytes)| file.write_all_at(bytes, start + offset))
        });
        async move {
            claimed?;
            writing.await.map_err(|error| DeviceError::new(ErrorKind::Io, error.to_string()))?;
            Ok(at)
        }
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        self.inner.read(from, buffer)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.inner.flush()
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        std::future::ready(self.table.borrow_mut().seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let begun = self.table.borrow_mut().begin_reset(zone);
        let (reset, table) = (self.inner.reset(zone), self.table.clone());
        async move {
            let ticket = begun?;
            reset.await?;
            table.borrow_mut().end_reset(ticket);
            Ok(())
        }
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.inner.read_root()
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.inner.write_root(root)
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.inner.grow(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_is_not_zero() {
        let mut data = vec![0u8; 5 * BLOCK_BYTES];
        for block in [1, 2, 4] {
            data[block * BLOCK_BYTES + 7] = 1;
        }
        let (first, second) = data.split_at(2 * BLOCK_BYTES);
        let found = runs(&[Bytes::from(first.to_vec()), Bytes::from(second.to_vec())]);
        let shape: Vec<_> = found.iter().map(|(at, bytes)| (*at, bytes.len())).collect();
        let block = BLOCK_BYTES;
        assert_eq!(shape, [(BLOCK_SIZE, 2 * block), (4 * BLOCK_SIZE, block)]);
    }
}
