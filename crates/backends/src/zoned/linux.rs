//! Zoned block devices of Linux.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use bytes::Bytes;
use mjolnir_device::AlignedBuf;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

use super::kernel::{Command, Condition, Kernel, Limits, Zone};
use crate::io::{Io, Request, Target, align};

/// The kernel counts in these units, whatever the device's blocks.
const SECTOR: u64 = 512;

/// The most pieces of memory in a write: what drives take in one request.
const PIECES_MAX: usize = 64;

/// The pieces in one.
fn copied(pieces: &[Bytes]) -> Bytes {
    let mut whole = AlignedBuf::zeroed(pieces.iter().map(Bytes::len).sum());
    let mut rest = whole.as_mut();
    for piece in pieces {
        let (head, tail) = rest.split_at_mut(piece.len());
        head.copy_from_slice(piece);
        rest = tail;
    }
    whole.freeze()
}

/// `struct blk_zone` of `linux/blkzoned.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawZone {
    start: u64,
    length: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    not_sequential: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    reserved_too: [u64; 3],
}

const _: () = assert!(size_of::<RawZone>() == 64);

/// `struct blk_zone_report`, without the zones behind it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ReportHead {
    sector: u64,
    zones: u32,
    flags: u32,
}

const ZONES_A_REPORT: usize = 64;

#[repr(C)]
struct RawReport {
    head: ReportHead,
    zones: [RawZone; ZONES_A_REPORT],
}

const REPORT: Opcode = opcode::read_write::<ReportHead>(0x12, 130);
const RESET: Opcode = opcode::write::<[u64; 2]>(0x12, 131);
const ZONE_SECTORS: Opcode = opcode::read::<u32>(0x12, 132);
const OPEN: Opcode = opcode::write::<[u64; 2]>(0x12, 134);
const CLOSE: Opcode = opcode::write::<[u64; 2]>(0x12, 135);
const FINISH: Opcode = opcode::write::<[u64; 2]>(0x12, 136);

/// The report's zones have capacities.
const HAS_CAPACITY: u32 = 1;

/// Bytes between the starts of the zones of a block device; `None` if it is not zoned.
pub(crate) fn zone_length(device: &File) -> Option<u64> {
    // SAFETY: BLKGETZONESZ writes a u32 through its argument; on anything but a block device the
    // kernel refuses it.
    let sectors: u32 = unsafe { ioctl(device, Getter::<ZONE_SECTORS, u32>::new()) }.ok()?;
    (sectors > 0).then(|| u64::from(sectors) * SECTOR)
}

/// The zones from byte `from` on, as many as one report has.
fn report(device: &File, from: u64, most: usize) -> io::Result<Vec<Zone>> {
    let most = most.min(ZONES_A_REPORT);
    let head = ReportHead { sector: from / SECTOR, zones: most as u32, flags: 0 };
    let mut report = RawReport { head, zones: [RawZone::default(); ZONES_A_REPORT] };
    // SAFETY: BLKREPORTZONE reads the head and writes it and at most as many zones as it asks for,
    // for all of which there is room behind it.
    unsafe { ioctl(device, Updater::<REPORT, RawReport>::new(&mut report))? };
    let has_capacity = report.head.flags & HAS_CAPACITY != 0;
    let found = (report.head.zones as usize).min(most);
    Ok(report.zones[..found].iter().map(|zone| zone.cooked(has_capacity)).collect())
}

impl RawZone {
    fn cooked(&self, has_capacity: bool) -> Zone {
        let capacity = if has_capacity { self.capacity } else { self.length };
        let condition = match (self.kind, self.condition) {
            (1, _) => Condition::Conventional,
            (_, 1) => Condition::Empty,
            (_, 2 | 3) => Condition::Open,
            (_, 4) => Condition::Closed,
            (_, 14) => Condition::Full,
            (_, 13) => Condition::ReadOnly,
            _ => Condition::Offline,
        };
        // The pointer of a full zone is reported as the end of its length.
        let written = match condition {
            Condition::Full => capacity,
            _ => self.pointer.saturating_sub(self.start).min(capacity),
        };
        Zone {
            start: self.start * SECTOR,
            length: self.length * SECTOR,
            capacity: capacity * SECTOR,
            written: written * SECTOR,
            condition,
        }
    }
}

/// A zoned block device, opened for direct I/O.
pub struct Linux {
    target: Arc<Target>,
    io: Io,
}

impl Linux {
    pub(super) fn new(target: Arc<Target>, io: Io) -> Self {
        Linux { target, io }
    }

    pub(super) fn is_uring(&self) -> bool {
        matches!(self.io, Io::Uring(_))
    }

    pub(super) fn file(&self) -> &File {
        &self.target.file
    }
}

/// All zones of a device.
pub(super) fn zones(device: &File) -> io::Result<Vec<Zone>> {
    let mut zones: Vec<Zone> = Vec::new();
    loop {
        let from = zones.last().map_or(0, |zone| zone.start + zone.length);
        let more = report(device, from, ZONES_A_REPORT)?;
        // The second is of no device that there is.
        if more.is_empty() || more.iter().any(|zone| zone.length == 0) {
            return Ok(zones);
        }
        zones.extend(more);
    }
}

/// A number that the kernel shows of a block device's queue; `None` where it shows none, or 0.
fn queue(device: &File, what: &str) -> Option<u64> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{what}"));
    text.ok()?.trim().parse().ok().filter(|value| *value > 0)
}

/// How many zones of a device may be open and active.
pub(super) fn limits(device: &File) -> Limits {
    let limit = |what| queue(device, what).and_then(|value| u32::try_from(value).ok());
    Limits { open: limit("max_open_zones"), active: limit("max_active_zones") }
}

/// Carries out a command on the calling thread.
pub(super) fn command(device: &File, command: Command, zone: &Zone) -> io::Result<()> {
    let range = [zone.start / SECTOR, zone.length / SECTOR];
    // SAFETY: each of the four reads two u64 through its argument and writes nothing; on anything
    // but a zoned block device the kernel refuses them.
    unsafe {
        match command {
            Command::Reset => ioctl(device, Setter::<RESET, [u64; 2]>::new(range)),
            Command::Open => ioctl(device, Setter::<OPEN, [u64; 2]>::new(range)),
            Command::Close => ioctl(device, Setter::<CLOSE, [u64; 2]>::new(range)),
            Command::Finish => ioctl(device, Setter::<FINISH, [u64; 2]>::new(range)),
        }
    }?;
    Ok(())
}

impl Kernel for Linux {
    fn zones(&self) -> io::Result<Vec<Zone>> {
        zones(&self.target.file)
    }

    fn zone(&self, of: &Zone) -> impl Future<Output = io::Result<Zone>> + 'static {
        let (target, start) = (self.target.clone(), of.start);
        blocking::unblock(move || {
            let found = report(&target.file, start, 1)?.into_iter().next();
            found.ok_or_else(|| io::Error::other("the device reports no zone there"))
        })
    }

    fn limits(&self) -> Limits {
        limits(&self.target.file)
    }

    fn longest(&self) -> u64 {
        // A longer write is split by the kernel, and its parts may overtake one another.
        queue(&self.target.file, "max_sectors_kb").map_or(128 << 10, |kib| kib << 10)
    }

    fn command(
        &self,
        what: Command,
        zone: &Zone,
    ) -> impl Future<Output = io::Result<()>> + 'static {
        let (target, zone) = (self.target.clone(), *zone);
        blocking::unblock(move || command(&target.file, what, &zone))
    }

    fn write(
        &self,
        offset: u64,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = io::Result<()>> + 'static {
        // More pieces than a request of the device has are split, too.
        let pieces = match pieces.len() > PIECES_MAX {
            true => vec![copied(&pieces)],
            false => align(pieces),
        };
        let write = self.io.start(Request::Write { offset, pieces }, None);
        async move { write.await.map(drop) }
    }

    fn read(
        &self,
        offset: u64,
        buffer: AlignedBuf,
    ) -> impl Future<Output = io::Result<AlignedBuf>> + 'static {
        let read = self.io.start(Request::Read { offset, buffer }, None);
        async move { Ok(read.await?.expect("a read returns its buffer")) }
    }

    fn flush(&self) -> impl Future<Output = io::Result<()>> + 'static {
        let (sync, target) = (self.io.start(Request::Sync, None), self.target.clone());
        async move {
            sync.await?;
            target.confirm_sync().await
        }
    }

    fn forgive(&self) {
        self.target.forgive();
    }
}
