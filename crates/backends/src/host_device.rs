//! Whatever a store of this machine lies on: a file, a block device or a zoned block device.

use std::fs::File;
use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use futures_util::future::Either;
use mjolnir_device::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, Runtime};
use mjolnir_units::{Pba, ZoneId};

use crate::{FileDevice, OpenOptions, Warnings, ZonedDevice};

/// One of the two.
pub enum HostDevice {
    /// A regular file or a block device that can be written in place.
    File(FileDevice),
    /// A zoned block device.
    Zoned(ZonedDevice),
}

use HostDevice::{File as InPlace, Zoned};

impl HostDevice {
    /// Opens what lies at `path`. A zoned device knows only reading and writing: of `options`, the others
    /// do not apply to it.
    ///
    /// # Errors
    ///
    /// As [`FileDevice::open`] and [`ZonedDevice::open`].
    pub async fn open(
        path: &Path,
        options: OpenOptions,
        runtime: &impl Runtime,
    ) -> Result<Self, DeviceError> {
        match ZonedDevice::is_one(path) {
            true => Ok(Zoned(ZonedDevice::open(path, options.read_only, runtime).await?)),
            false => Ok(InPlace(FileDevice::open(path, options, runtime)?)),
        }
    }

    /// The warnings about the container.
    pub fn warnings(&self) -> Warnings {
        match self {
            InPlace(device) => device.warnings(),
            Zoned(_) => Warnings::default(),
        }
    }

    /// Whether requests go through io_uring (or else through a pool of threads).
    pub fn is_uring(&self) -> bool {
        match self {
            InPlace(device) => device.is_uring(),
            Zoned(device) => device.is_uring(),
        }
    }

    /// Whether requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        match self {
            InPlace(device) => device.is_direct(),
            Zoned(_) => true,
        }
    }

    /// The open file or block device.
    pub(crate) fn file(&self) -> &File {
        match self {
            InPlace(device) => device.file(),
            Zoned(device) => device.file(),
        }
    }
}

impl Device for HostDevice {
    fn info(&self) -> DeviceInfo {
        match self {
            InPlace(device) => device.info(),
            Zoned(device) => device.info(),
        }
    }

    fn abilities(&self) -> &dyn Abilities {
        match self {
            InPlace(device) => device.abilities(),
            Zoned(device) => device.abilities(),
        }
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.append(at, data)),
            Zoned(device) => Either::Right(device.append(at, data)),
        }
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.append_again(at, data)),
            Zoned(device) => Either::Right(device.append_again(at, data)),
        }
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.read(from, buffer)),
            Zoned(device) => Either::Right(device.read(from, buffer)),
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.flush()),
            Zoned(device) => Either::Right(device.flush()),
        }
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.seal(zone)),
            Zoned(device) => Either::Right(device.seal(zone)),
        }
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.reset(zone)),
            Zoned(device) => Either::Right(device.reset(zone)),
        }
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.release(zone)),
            Zoned(device) => Either::Right(device.release(zone)),
        }
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.read_root()),
            Zoned(device) => Either::Right(device.read_root()),
        }
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.write_root(root)),
            Zoned(device) => Either::Right(device.write_root(root)),
        }
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        match self {
            InPlace(device) => Either::Left(device.grow(bytes)),
            Zoned(device) => Either::Right(device.grow(bytes)),
        }
    }
}
