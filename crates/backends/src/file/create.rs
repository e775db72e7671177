//! Making a container.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mjolnir_device::{AlignedBuf, DeviceError, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba};

use super::failure::{Failure, size};
use super::open::{Acquired, acquire, length, read_block, reserve};
use super::{FileDevice, Kind};
use crate::container::{Found, LABELS_AT, Label, ROOTS_AT, ZONES_AT, ZONES_MIN};
use crate::discard::discard;

/// The options of a new container.
#[derive(Clone, Copy, Debug)]
pub struct CreateOptions {
    /// Bytes of the whole file, frame included, rounded down to whole zones. `None` for all of a
    /// block device.
    pub bytes: Option<u64>,
    /// Blocks in a zone.
    pub zone_blocks: u64,
    /// Reserve the space now, and keep it reserved, so that it cannot run out later.
    pub preallocate: bool,
    /// The container's identity; the caller draws it at random.
    pub uuid: [u8; 16],
    /// Destroy the present content.
    pub overwrite: bool,
}

impl FileDevice {
    /// Makes a container at `path`, durably: a new file, or in an existing block device.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if `path` has content that must not be overwritten, or if
    /// the sizes are impossible; [`Busy`](ErrorKind::Busy) if it is in use;
    /// [`NoSpace`](ErrorKind::NoSpace) if there is no room to preallocate; else
    /// [`Io`](ErrorKind::Io). A file that this call made is removed again if it fails.
    pub fn create(path: &Path, options: CreateOptions) -> Result<(), DeviceError> {
        let name = path.display().to_string();
        // Refuses impossible options before touching the file.
        if options.bytes.is_some() || options.zone_blocks == 0 {
            zones(&name, options.bytes.unwrap_or(0), options.zone_blocks)?;
        }
        let existed = path.symlink_metadata().is_ok();
        if !existed && options.bytes.is_none() {
            return Err(invalid(&name, "say how large the new file is to be".into()));
        }
        let mut how = OpenOptions::new();
        how.write(true).create_new(!existed);
        let Acquired { file, kind, claims } = acquire(path, &mut how, true)?;
        let made = make(&file, kind, &name, options).and_then(|()| {
            let failed = |error: io::Error| failure(&name).of_write(&error);
            if existed { Ok(()) } else { sync_parent(path).map_err(failed) }
        });
        if made.is_err() && !existed {
            let _ = std::fs::remove_file(path);
        }
        drop(claims);
        made
    }
}

fn invalid(name: &str, why: String) -> DeviceError {
    DeviceError::new(ErrorKind::Invalid, format!("making a store in {name}: {why}"))
}

fn failure(name: &str) -> Failure {
    Failure { what: "making a store in", name: name.into(), offset: None }
}

/// The number of zones of a container of `bytes` bytes.
fn zones(name: &str, bytes: u64, zone_blocks: u64) -> Result<u32, DeviceError> {
    let zone_bytes = zone_blocks.checked_mul(BLOCK_SIZE).filter(|&zone_bytes| zone_bytes > 0);
    let Some(zone_bytes) = zone_bytes else {
        return Err(invalid(name, format!("segments cannot have {zone_blocks} blocks")));
    };
    let zones = Label::zones_in(bytes, zone_blocks);
    if zones < ZONES_MIN {
        let least = zone_bytes.saturating_mul(ZONES_MIN).saturating_add(ZONES_AT);
        return Err(invalid(
            name,
            format!(
                "{} hold {zones} segments of {}; a store has at least {ZONES_MIN}, so make it at \
                 least {} or its segments smaller",
                size(bytes),
                size(zone_bytes),
                size(least)
            ),
        ));
    }
    match u32::try_from(zones) {
        Ok(zones) if u64::from(zones) * zone_blocks <= Pba::MAX.0 + 1 => Ok(zones),
        _ => Err(invalid(
            name,
            format!(
                "{} hold {zones} segments of {zone_blocks} blocks; a store has at most {} segments \
                 and {} blocks",
                size(bytes),
                u32::MAX,
                Pba::MAX.0 + 1
            ),
        )),
    }
}

fn make(file: &File, kind: Kind, name: &str, options: CreateOptions) -> Result<(), DeviceError> {
    let failed = |error: io::Error| failure(name).of_write(&error);
    let present = length(file, kind).map_err(failed)?;
    if !options.overwrite {
        refuse_contents(file, name, kind, present)?;
    }
    let bytes = match (options.bytes, kind) {
        (Some(bytes), Kind::BlockDevice) if bytes > present => {
            return Err(invalid(
                name,
                format!("{} are wanted, and the device has {}", size(bytes), size(present)),
            ));
        }
        (Some(bytes), _) => bytes,
        (None, Kind::BlockDevice) => present,
        (None, Kind::File) => {
            return Err(invalid(name, "say how large the file is to be".into()));
        }
    };
    let label = Label {
        uuid: options.uuid,
        zone_blocks: options.zone_blocks,
        zones: zones(name, bytes, options.zone_blocks)?,
        preallocated: options.preallocate,
    };
    let write = || {
        if kind == Kind::File {
            file.set_len(0)?;
            file.set_len(label.file_bytes())?;
            if options.preallocate {
                reserve(file, 0, label.file_bytes())?;
            }
        }
        // First erases the old labels, then writes the new ones: a crash in between leaves no
        // mixture.
        let nothing = AlignedBuf::zeroed(BLOCK_BYTES);
        for offset in LABELS_AT.into_iter().chain(ROOTS_AT) {
            file.write_all_at(nothing.as_ref(), offset)?;
        }
        file.sync_all()?;
        if kind == Kind::BlockDevice {
            // A hint to the drive. Not all drives support it, and nothing depends on it.
            let _ = discard(file, ZONES_AT, label.file_bytes() - ZONES_AT);
        }
        for offset in [LABELS_AT[1], LABELS_AT[0]] {
            file.write_all_at(label.encode().as_ref(), offset)?;
            file.sync_all()?;
        }
        Ok(())
    };
    write().map_err(failed)
}

/// Refuses a file or device with content.
fn refuse_contents(file: &File, name: &str, kind: Kind, bytes: u64) -> Result<(), DeviceError> {
    let refuse = |what: &str| {
        Err(invalid(
            name,
            format!(
                "it holds {what}, which would be destroyed; ask to overwrite it, or choose another path"
            ),
        ))
    };
    let failed = |error: io::Error| failure(name).of_read(&error);
    for offset in LABELS_AT {
        if offset + BLOCK_SIZE <= bytes {
            let block = read_block(file, offset).map_err(failed)?;
            if Label::decode(block.as_ref()) != Found::Nothing {
                return refuse("a Mjolnir store");
            }
        }
    }
    if kind == Kind::File {
        return if bytes > 0 { refuse(&size(bytes)) } else { Ok(()) };
    }
    let mut offset = 0;
    while offset < ZONES_AT.min(bytes) {
        let block = read_block(file, offset).map_err(failed)?;
        if block.as_ref().iter().any(|&byte| byte != 0) {
            return refuse(&format!("something (at byte {offset})"));
        }
        offset += BLOCK_SIZE;
    }
    Ok(())
}

/// Makes the new name in the directory durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}
