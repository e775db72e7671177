//! Claims on bytes, against other openers of the same bytes by another name.
//!
//! A lock on a file shows every opener of that file, by any path. It does not show a loop device
//! over the file, a partition and its disk, or two nodes of one device. So each container claims a
//! range of bytes by locks that belong to the open file. The locks lie on the file, or on the disk
//! whatever node was opened. If the disk is a loop device, they also lie on its backing file or
//! disk, and so on downwards.
//!
//! Files that this process cannot see (in another mount namespace, say) are not claimed.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

use super::Kind;

/// The most levels of loop devices over each other: no sane machine has more.
const DEPTH_MAX: usize = 16;
const SECTOR: u64 = 512;

/// A file locked until this is dropped.
pub(crate) struct Claim(File);

impl Drop for Claim {
    /// Unlocks explicitly: a process being started may have the file open for a moment, too.
    fn drop(&mut self) {
        set_lock(&self.0, libc::F_UNLCK, Range::ALL);
    }
}

/// The container is open already, by another name.
#[derive(Debug)]
pub(super) enum Conflict {
    /// By an unknown opener: it may not use it as a container.
    Unknown,
    /// The opener has another part of the disk, or another node.
    OfDisk,
    /// This is a loop device over that path, which is open.
    Below(PathBuf),
    /// The opener uses this loop device over it.
    Above(PathBuf),
}

impl fmt::Display for Conflict {
    /// The text after "in use by another process".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Unknown => Ok(()),
            Conflict::OfDisk => {
                f.write_str(" by another name, or as another part of the same disk")
            }
            Conflict::Below(path) => {
                let path = path.display();
                write!(f, ", since it is a loop device over {path}, which that one has open")
            }
            Conflict::Above(path) => {
                write!(f, " by way of {}, a loop device over it", path.display())
            }
        }
    }
}

/// A part of a file or disk, in bytes.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    /// `None` for all bytes from the start on.
    length: Option<u64>,
}

impl Range {
    const ALL: Range = Range { start: 0, length: None };

    /// This range, relative to `outer`, as a range of the whole.
    fn within(self, outer: Range) -> Range {
        let left = outer.length.map(|length| length.saturating_sub(self.start));
        let length = match (self.length, left) {
            (Some(own), Some(left)) => Some(own.min(left)),
            (own, left) => own.or(left),
        };
        Range { start: outer.start + self.start, length }
    }
}

/// Claims the bytes of `file`: for one process if `exclusive`, else for readers.
pub(super) fn claim(file: &File, kind: Kind, exclusive: bool) -> Result<Vec<Claim>, Conflict> {
    if kind == Kind::File {
        let Ok(same) = file.try_clone() else { return Ok(Vec::new()) };
        let claim = lock(same, Range::ALL, exclusive);
        return claim
            .map(|claim| vec![claim])
            .ok_or_else(|| loop_device_over(file).map_or(Conflict::Unknown, Conflict::Above));
    }
    let mut claims = Vec::new();
    let Ok(meta) = file.metadata() else { return Ok(claims) };
    let (mut device, mut range) = (meta.rdev(), Range::ALL);
    let mut below: Option<PathBuf> = None;
    let conflict = |below: Option<PathBuf>| below.map_or(Conflict::OfDisk, Conflict::Below);
    for _ in 0..DEPTH_MAX {
        let (disk, part) = whole_disk(device);
        range = range.within(part);
        let Some(node) = open_disk(disk, exclusive) else { break };
        let backing = backing_of(&node, disk, exclusive);
        let claim = lock(node, range, exclusive).ok_or_else(|| conflict(below.take()))?;
        claims.push(claim);
        let Some((path, backing, offset)) = backing else { break };
        range = range.within(offset);
        let Ok(meta) = backing.metadata() else { break };
        below = Some(path);
        if meta.file_type().is_block_device() {
            device = meta.rdev();
            continue;
        }
        let claim = lock(backing, range, exclusive).ok_or_else(|| conflict(below.take()))?;
        claims.push(claim);
        break;
    }
    Ok(claims)
}

/// `None` if another process has a part of the range. Succeeds on a file system without such locks.
fn lock(file: File, range: Range, exclusive: bool) -> Option<Claim> {
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    set_lock(&file, kind, range).then(|| Claim(file))
}

fn set_lock(file: &File, kind: libc::c_int, range: Range) -> bool {
    // A length of 0 means all following bytes.
    let (Ok(start), Ok(length)) = (range.start.try_into(), range.length.unwrap_or(0).try_into())
    else {
        return true;
    };
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    // SAFETY: F_OFD_SETLK reads one `flock` through its argument and writes nothing.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    let held = [Some(libc::EAGAIN), Some(libc::EACCES)];
    outcome == 0 || !held.contains(&io::Error::last_os_error().raw_os_error())
}

fn in_sysfs(device: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", major(device), minor(device)).into()
}

fn number_in(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The disk of a partition, and the partition's range on it; for another device, the device itself.
fn whole_disk(device: u64) -> (u64, Range) {
    let partition = || {
        let folder = in_sysfs(device).canonicalize().ok()?;
        folder.join("partition").exists().then_some(())?;
        let start = number_in(&folder.join("start"))? * SECTOR;
        let length = number_in(&folder.join("size"))? * SECTOR;
        let disk = std::fs::read_to_string(folder.parent()?.join("dev")).ok()?;
        let (major, minor) = disk.trim().split_once(':')?;
        let disk = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        Some((disk, Range { start, length: Some(length) }))
    };
    partition().unwrap_or((device, Range::ALL))
}

/// Opens the disk's canonical node, the same in every process.
fn open_disk(disk: u64, exclusive: bool) -> Option<File> {
    let facts = std::fs::read_to_string(in_sysfs(disk).join("uevent")).ok()?;
    let name = facts.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    let node = open(&Path::new("/dev").join(name), exclusive)?;
    let meta = node.metadata().ok()?;
    (meta.file_type().is_block_device() && meta.rdev() == disk).then_some(node)
}

/// An exclusive lock needs a file open for writing.
fn open(path: &Path, exclusive: bool) -> Option<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(exclusive).custom_flags(libc::O_NONBLOCK).open(path).ok()
}

/// A loop device over the file, if there is one.
fn loop_device_over(file: &File) -> Option<PathBuf> {
    let file = file.metadata().ok()?;
    let disks = std::fs::read_dir("/sys/block").ok()?;
    disks.flatten().find_map(|disk| {
        let path = std::fs::read(disk.path().join("loop/backing_file")).ok()?;
        let path = PathBuf::from(OsString::from_vec(path.strip_suffix(b"\n")?.to_vec()));
        let meta = path.metadata().ok()?;
        let same = (meta.dev(), meta.ino()) == (file.dev(), file.ino());
        same.then(|| Path::new("/dev").join(disk.file_name()))
    })
}

/// The backing file of a disk that is a loop device: its path, the file, and the range of it.
fn backing_of(node: &File, disk: u64, exclusive: bool) -> Option<(PathBuf, File, Range)> {
    const LOOP_MAJOR: u32 = 7;
    /// `LOOP_GET_STATUS64`, which has no direction in its number.
    const LOOP_GET_STATUS64: Opcode = opcode::none(0x4C, 5);
    /// `struct loop_info64`, in words: device, inode, device number, offset, size limit, and fields
    /// not used here.
    type LoopInfo = [u64; 29];
    const _: () = assert!(size_of::<LoopInfo>() == 232);

    if major(disk) != LOOP_MAJOR {
        return None;
    }
    // SAFETY: LOOP_GET_STATUS64 writes a `struct loop_info64` of 232 bytes, all of which may have any value,
    // through its argument; the device is a loop device by its number.
    let info = unsafe { ioctl(node, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }.ok()?;
    let [device, inode, _, start, limit, ..] = info;
    let path = std::fs::read(in_sysfs(disk).join("loop/backing_file")).ok()?;
    let path = PathBuf::from(OsString::from_vec(path.strip_suffix(b"\n")?.to_vec()));
    let meta = path.metadata().ok()?;
    // In another mount namespace the path may lead to another file.
    if (meta.dev(), meta.ino()) != (device, inode) {
        return None;
    }
    let sane = meta.is_file() || meta.file_type().is_block_device();
    let backing = if sane { open(&path, exclusive)? } else { return None };
    let meta = backing.metadata().ok()?;
    let range = Range { start, length: (limit > 0).then_some(limit) };
    ((meta.dev(), meta.ino()) == (device, inode)).then_some((path, backing, range))
}
