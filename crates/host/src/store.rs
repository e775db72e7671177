//! Making and opening stores on files and block devices.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mjolnir_backends::{
    CreateOptions, FileDevice, HostDevice, OpenOptions as DeviceOptions, Short, WarmFile, WarmLeft,
    WarmPlace, WarmReport, Warning, Warnings, ZonedCreateOptions, ZonedDevice,
};
use mjolnir_device::{DeviceError, ErrorKind as DeviceKind, Runtime, WarmLog};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions, segments_told};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};

use crate::HostRuntime;

/// The engine in the real world.
pub type LocalStore = Engine<HostDevice, HostRuntime>;

/// By default a store has at least this many segments, and fewer than twice as many. About eight
/// are reserved, whatever their size. With a reserve of a sixteenth of a store 80 % full, 5.7
/// blocks were written per accepted block; with four times as many segments 3.8 (`mjolnir-bench
/// steady-disk`); with twice as many again 3.7, but moving data was slower by a sixth.
const SEGMENTS_DEFAULT: u64 = 512;
/// If that makes segments smaller than this, they get this size as long as the store has
/// [`SEGMENTS_LEAST`] of them: each segment has a header and a footer.
const SEGMENT_BYTES_USUAL: u64 = 4 << 20;
/// See [`SEGMENT_BYTES_USUAL`].
const SEGMENTS_LEAST: u64 = 128;
/// The smallest segment by default, in bytes.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest segment by default, in bytes.
const SEGMENT_BYTES_MAX: u64 = 128 << 20;

/// The options of a new store.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewStore {
    /// Bytes of the whole file; `None` for all of a block device.
    pub bytes: Option<u64>,
    /// Bytes in a segment; `None` to choose by the size of the store.
    pub segment_bytes: Option<u64>,
    /// Reserve the space now, so that it cannot run out later.
    pub preallocate: bool,
    /// Destroy the present content.
    pub overwrite: bool,
}

/// The shape of a store that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Segments.
    pub segments: u64,
    /// Bytes in each.
    pub segment_bytes: u64,
    /// Whether they are the zones of a zoned device.
    pub zoned: bool,
}

/// The treatment of acknowledged but unflushed changes that survive the end of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Warm {
    /// No warm log: the changes that a dead server left are given up.
    Off,
    /// Restore the changes that a dead server left, and keep no warm log.
    #[default]
    TakeOver,
    /// Restore these changes, and keep a warm log at this place.
    Keep(WarmPlace),
}

/// An opened store.
pub struct Opened {
    /// The store.
    pub engine: LocalStore,
    /// Warnings about its container.
    pub warnings: Warnings,
    /// Whether requests go through io_uring (or else through a pool of threads).
    pub uring: bool,
    /// Whether requests bypass the page cache.
    pub direct: bool,
    /// The acknowledged changes that the last server left, and the place of this server's.
    pub warm: WarmReport,
    /// The changes given up.
    pub given_up: Option<WarmLeft>,
}

/// Makes an empty store at `path`, durably.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if `path` exists and must not be overwritten, or if the sizes
/// are impossible; [`Busy`](ErrorKind::Busy) if it is in use; [`NoSpace`](ErrorKind::NoSpace) if
/// there is no room for it; else [`Io`](ErrorKind::Io). A file that this call made is removed again
/// if it fails.
pub async fn create_store(
    path: &Path,
    new: NewStore,
    runtime: &HostRuntime,
) -> Result<Shape, Error> {
    if ZonedDevice::is_one(path) {
        return create_zoned(path, new, runtime).await;
    }
    let segment_bytes = match new.segment_bytes {
        Some(bytes) => bytes,
        None => default_segment_bytes(match new.bytes {
            Some(bytes) => bytes,
            None => block_device_bytes(path)?,
        }),
    };
    if segment_bytes == 0 || !segment_bytes.is_multiple_of(BLOCK_SIZE) {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "a segment cannot have {segment_bytes} bytes; choose a multiple of {BLOCK_SIZE}, \
                 such as {}",
                ByteSize(SEGMENT_BYTES_MAX)
            ),
        ));
    }
    let options = CreateOptions {
        bytes: new.bytes,
        zone_blocks: segment_bytes / BLOCK_SIZE,
        preallocate: new.preallocate,
        uuid: new_uuid(runtime),
        overwrite: new.overwrite,
    };
    outlive_file_size_limit();
    let existed = path.symlink_metadata().is_ok();
    FileDevice::create(path, options).map_err(of_device)?;
    let formatted = format(path, runtime).await;
    if formatted.is_err() && !existed {
        let _ = std::fs::remove_file(path);
    }
    let (segments, segment_bytes) = formatted?;
    Ok(Shape { segments, segment_bytes, zoned: false })
}

/// Makes an empty store on a zoned device, whose zones are its segments.
async fn create_zoned(path: &Path, new: NewStore, runtime: &HostRuntime) -> Result<Shape, Error> {
    let sizes = [("--size", new.bytes.is_some()), ("--segment-size", new.segment_bytes.is_some())];
    for (flag, is_given) in sizes.into_iter().chain([("--preallocate", new.preallocate)]) {
        if is_given {
            let what = format!(
                "{} is a zoned device: a store takes all of it, and its zones are the segments; leave out \
                 {flag}",
                path.display()
            );
            return Err(Error::new(ErrorKind::Invalid, what));
        }
    }
    let options = ZonedCreateOptions { uuid: new_uuid(runtime), overwrite: new.overwrite };
    ZonedDevice::create(path, options, runtime).await.map_err(of_device)?;
    let (segments, segment_bytes) = format(path, runtime).await?;
    Ok(Shape { segments, segment_bytes, zoned: true })
}

fn new_uuid(runtime: &HostRuntime) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&runtime.random().to_le_bytes());
    uuid[8..].copy_from_slice(&runtime.random().to_le_bytes());
    uuid
}

/// Makes the store on a device that has a label. Returns its segments, and the bytes in each.
async fn format(path: &Path, runtime: &HostRuntime) -> Result<(u64, u64), Error> {
    use mjolnir_device::Device;
    let device =
        HostDevice::open(path, DeviceOptions::default(), runtime).await.map_err(of_device)?;
    let info = device.info();
    Engine::format(device, runtime.clone(), FormatOptions::default()).await?;
    Ok((u64::from(info.zones), info.zone_blocks * BLOCK_SIZE))
}

/// Opens the store at `path`, and reports warnings about its container. Only one process may open a
/// store; several may if all only read.
///
/// # Errors
///
/// [`Busy`](ErrorKind::Busy) if another process has it open, [`Format`](ErrorKind::Format) if it is
/// no store that this program can read, [`Damaged`](ErrorKind::Damaged) if it is damaged beyond
/// opening, else the system's error.
pub async fn open_store(
    path: &Path,
    device: DeviceOptions,
    engine: OpenOptions,
    warm: &Warm,
    runtime: &HostRuntime,
    tell: impl Fn(&Warning),
) -> Result<Opened, Error> {
    let mut device = device;
    if device.short && engine.read_only {
        device.zones_least = zones_least(path, device, runtime).await?;
    }
    open_with(path, device, engine, warm, runtime, tell).await
}

/// How many segments the store at `path` has, if its label counts fewer; else 0.
async fn zones_least(
    path: &Path,
    device: DeviceOptions,
    runtime: &HostRuntime,
) -> Result<u32, Error> {
    use mjolnir_device::Device;
    let mut device = DeviceOptions { read_only: true, ..device };
    loop {
        let open = HostDevice::open(path, device, runtime).await.map_err(of_device)?;
        let told = match segments_told(&open).await {
            Ok(told) => told,
            // Segments that the label does not count explain the failure.
            Err(error) if device.zones_least > 0 => return Err(error),
            Err(_) => return Ok(0),
        };
        if told <= open.info().zones {
            return Ok(device.zones_least);
        }
        device.zones_least = told;
    }
}

async fn open_with(
    path: &Path,
    device: DeviceOptions,
    engine: OpenOptions,
    warm: &Warm,
    runtime: &HostRuntime,
    tell: impl Fn(&Warning),
) -> Result<Opened, Error> {
    outlive_file_size_limit();
    let (read_only, lost_blocks) = (engine.read_only, engine.salvage);
    let device = DeviceOptions { read_only, lost_blocks, ..device };
    let device = HostDevice::open(path, device, runtime).await.map_err(of_device)?;
    let (uring, direct) = (device.is_uring(), device.is_direct());
    let warnings = device.warnings();
    // Before the opening, which may fail, or repair the container.
    warnings.list().iter().for_each(tell);
    let usual = WarmPlace::default();
    let found = match warm {
        // A left log is useless once the store was opened without it.
        Warm::Off => None,
        Warm::TakeOver => Some(WarmFile::find(&device, &usual, false)),
        Warm::Keep(place) => Some(WarmFile::find(&device, place, !read_only)),
    };
    let found = found.transpose().map_err(|error| {
        let what = format!("looking for what a server of {} left: {error}", path.display());
        Error::new(ErrorKind::Io, what)
    })?;
    let report = found.as_ref().map(WarmFile::report).unwrap_or_default();
    let given_up = match *warm == Warm::Off && !read_only {
        true => WarmFile::find_to_give_up(&device).ok(),
        false => None,
    };
    let found = found.map(|found| Box::new(found) as Box<dyn WarmLog>);
    let opened = Engine::open_warm(device, runtime.clone(), engine, found).await;
    let engine = opened.map_err(|error| match &report.borrow().left {
        // An error about another warm log names that log, and perhaps this one.
        Some(left) if left.records > 0 && error.kind != ErrorKind::Invalid => {
            let what = format!("{} (its warm log is {})", error.message, left.path.display());
            Error::new(error.kind, what)
        }
        _ => error,
    })?;
    let given_up = given_up.and_then(|mut given_up| {
        let left = given_up.report().borrow().left.clone();
        given_up.end();
        left.filter(|left| left.records > 0)
    });
    let warm = report.borrow().clone();
    Ok(Opened { engine, warnings, uring, direct, warm, given_up })
}

/// Extends the file at `path` durably to the length in its store's label, if it is shorter. The
/// missing part reads as zeroes from then on, and its data as damaged. Returns how short the file
/// was. A label that counts fewer than `segments_least` segments is rewritten first.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if it is a block device; else as [`open_store`].
pub fn lengthen_store(path: &Path, segments_least: u32) -> Result<Option<Short>, Error> {
    outlive_file_size_limit();
    FileDevice::lengthen(path, segments_least).map_err(of_device)
}

/// The default segment size for a store of `bytes` bytes. Large segments cost less bookkeeping;
/// small stores need enough segments to choose from.
pub fn default_segment_bytes(bytes: u64) -> u64 {
    let least = (bytes / SEGMENTS_LEAST).clamp(1, SEGMENT_BYTES_USUAL);
    let wanted = least.max(bytes / SEGMENTS_DEFAULT);
    let power = 1 << (63 - wanted.leading_zeros());
    u64::clamp(power, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// Makes a write past the limit on file sizes (`ulimit -f`) fail, as on a full disk, instead of
/// ending the program.
fn outlive_file_size_limit() {
    // Fails only for signals that do not exist; then the default stays in force.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

fn block_device_bytes(path: &Path) -> Result<u64, Error> {
    let name = path.display();
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Io, format!("opening {name}: {error}"));
    match path.metadata() {
        Ok(meta) if meta.file_type().is_block_device() => {
            File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(failed)
        }
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!("{name} is no block device, so say how large the store is to be (`--size`)"),
        )),
    }
}

/// Converts a device's error, which names its subject, to a store's.
fn of_device(error: DeviceError) -> Error {
    let kind = match error.kind {
        DeviceKind::Invalid => ErrorKind::Invalid,
        DeviceKind::Unreadable => ErrorKind::Damaged,
        DeviceKind::NoSpace => ErrorKind::NoSpace,
        DeviceKind::Format => ErrorKind::Format,
        DeviceKind::Busy => ErrorKind::Busy,
        DeviceKind::Io | DeviceKind::Gone => ErrorKind::Io,
    };
    Error::new(kind, error.context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_large_but_not_too_few() {
        for (bytes, segment) in [
            (16 << 20, 1 << 20),
            (64 << 20, 1 << 20),
            (256 << 20, 2 << 20),
            (1 << 30, 4 << 20),
            (2 << 30, 4 << 20),
            (15 << 30, 16 << 20),
            (16 << 30, 32 << 20),
            (64 << 30, 128 << 20),
            (4 << 40, 128 << 20),
            (0, 1 << 20),
        ] {
            assert_eq!(default_segment_bytes(bytes), segment, "{bytes}");
        }
        for power in 7..28 {
            for bytes in [(1 << 20) << power, (3 << 19) << power, ((2 << 20) << power) - 1] {
                let segments = bytes / default_segment_bytes(bytes);
                let fewest = if bytes < 2 << 30 { SEGMENTS_LEAST } else { SEGMENTS_DEFAULT };
                let most = if bytes < 128 << 30 { 2 * SEGMENTS_DEFAULT } else { u64::MAX };
                assert!((fewest..most).contains(&segments), "{bytes}: {segments}");
            }
        }
    }
}
