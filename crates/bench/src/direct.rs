//! The disk alone: direct reads and copies by threads, with nothing of ours in between.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use mjolnir_device::Buffers;
use rustix::fs::OFlags;

use crate::clock::Timer;

/// Memory as the engine's: what lies in scattered pages takes a disk longer.
fn buffers() -> Buffers {
    Buffers::keeping(64 << 20)
}

/// Opens a file so that requests bypass the page cache, where the file system can.
fn open(path: &Path, write: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    direct.or_else(|_| options.open(path)).with_context(|| format!("opening {}", path.display()))
}

/// Seconds to read `bytes` bytes from the start of a file, `request` bytes at a time, one at a
/// time.
pub fn read(path: &Path, bytes: u64, request: u64) -> Result<f64> {
    let file = open(path, false)?;
    let mut buffer = buffers().take(request as usize);
    buffer.as_mut().fill(0); // So that it is there.
    let timer = Timer::start();
    let mut at = 0;
    while at < bytes {
        file.read_exact_at(buffer.as_mut(), at).context("reading the disk directly")?;
        at += request;
    }
    Ok(timer.took().wall_s)
}

/// Makes a file of so many bytes that lie on the disk, none of them zero.
pub fn write(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    let part = crate::load::payload(1 << 20);
    for at in (0..bytes).step_by(part.len()) {
        file.write_all_at(&part, at).context("writing to the disk")?;
    }
    file.sync_all().context("writing to the disk")
}

/// Seconds to copy `bytes` bytes from `from` (an offset within it) to a new file whose space is
/// reserved, durably: `request` bytes at a time, `depth` at a time.
pub fn copy(
    from: &Path,
    offset: u64,
    to: &Path,
    bytes: u64,
    request: u64,
    depth: usize,
) -> Result<f64> {
    let _ = std::fs::remove_file(to);
    let made = File::create_new(to).with_context(|| format!("making {}", to.display()))?;
    rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .context("reserving room for a copy")?;
    made.sync_all().context("reserving room for a copy")?;
    let (source, target) = (open(from, false)?, open(to, true)?);
    let (next, buffers) = (AtomicU64::new(0), buffers());
    let timer = Timer::start();
    std::thread::scope(|scope| {
        let copier = || -> std::io::Result<()> {
            let mut buffer = buffers.take(request as usize);
            loop {
                let at = next.fetch_add(request, Ordering::Relaxed);
                if at >= bytes {
                    return Ok(());
                }
                let length = request.min(bytes - at) as usize;
                source.read_exact_at(&mut buffer.as_mut()[..length], offset + at)?;
                target.write_all_at(&buffer.as_ref()[..length], at)?;
            }
        };
        let copiers: Vec<_> = (0..depth).map(|_| scope.spawn(copier)).collect();
        copiers.into_iter().try_for_each(|copier| copier.join().expect("a copier panicked"))
    })
    .context("copying directly")?;
    target.sync_data().context("copying directly")?;
    let seconds = timer.took().wall_s;
    std::fs::remove_file(to).context("removing a copy")?;
    Ok(seconds)
}

/// Has the system forget what it cached of a file, once all of it is on the disk.
pub fn forget(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.sync_all().context("writing back a file")?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).context("dropping a cache")
}
