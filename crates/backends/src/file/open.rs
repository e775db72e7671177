//! Opening a container.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mjolnir_device::{AlignedBuf, DeviceError, DeviceInfo, ErrorKind, Runtime, Sealing, ZoneTable};
use mjolnir_units::BLOCK_BYTES;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use super::claims::{Claim, Conflict, claim};
use super::failure::size;
use super::labels::Labels;
use super::warning::{Short, Warning, Warnings};
use super::{FileDevice, Frame, Kind, Shared};
use crate::container::{Found, LABELS_AT, Label, ROOTS_AT, choose_label, decode_root};
use crate::io::{Io, Target};

/// The longest append, in blocks: 8 MiB.
const APPEND_BLOCKS_MAX: u64 = 2048;
/// Tries to read a label or root before it counts as damaged.
pub(super) const TRIES: usize = 3;
/// A number of requests in flight that keeps today's drives busy.
const QUEUE_DEPTH: usize = 32;

/// Options for opening a container.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Refuse every change; other readers may have the container open, too.
    pub read_only: bool,
    /// How requests are carried out.
    pub io: IoChoice,
    /// Whether requests bypass the page cache.
    pub direct: Direct,
    /// Open a container even if it is shorter than its label says, for reading only: the missing
    /// part reads as zeroes, and a [`Warning`] reports it.
    pub short: bool,
    /// With [`short`](Self::short): assume at least this many zones even if the label counts fewer,
    /// and report this by a [`Warning`]. The label may be from before the container grew.
    pub zones_least: u32,
    /// A block that cannot be read while a label can counts as lost, whatever the system's error.
    /// Some devices have one error for lost blocks and for transient faults.
    pub lost_blocks: bool,
}

/// How requests are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// By io_uring if permitted, else by threads.
    #[default]
    Auto,
    /// By io_uring, or not at all.
    Uring,
    /// By a pool of threads.
    Pool,
}

/// Whether requests bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file system can.
    #[default]
    Auto,
    /// No.
    Never,
}

impl FileDevice {
    /// Opens the container at `path`; its requests complete on `runtime`'s thread.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) if another process has it open, by whatever name, [`Format`](ErrorKind::Format) if
    /// it is no container that this program can read or is truncated, else
    /// [`Io`](ErrorKind::Io).
    pub fn open(
        path: &Path,
        options: OpenOptions,
        runtime: &impl Runtime,
    ) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        let failed = |what: &str| {
            let context = format!("{what} {name}");
            move |error: io::Error| DeviceError::new(ErrorKind::Io, format!("{context}: {error}"))
        };
        let Acquired { file, kind, claims } = acquire(
            path,
            std::fs::OpenOptions::new().write(!options.read_only),
            !options.read_only,
        )?;
        let actual = length(&file, kind).map_err(failed("measuring"))?;
        refuse_stump(&file, &name, actual)?;
        let direct = options.direct == Direct::Auto && try_direct(&file);
        if !options.read_only {
            // From here on this program relies on data that an earlier program wrote but may not
            // have made durable.
            file.sync_data().map_err(failed("flushing"))?;
        }
        if !direct {
            // Pages whose write failed once pass for written, although the medium has other data.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        // An unreadable label or root counts as damaged: that is why there are two of each. But a
        // transient fault must not decide which one is the newest.
        let block = |offset| (0..TRIES).find_map(|_| read_block(&file, offset).ok());
        let blocks = LABELS_AT.map(block);
        let decode = |block: &AlignedBuf| Label::decode(block.as_ref());
        let labels = blocks.each_ref().map(|block| block.as_ref().map_or(Found::Damaged, decode));
        let (label, damaged) = choose_label(&name, labels.clone())?;
        let unsound = labels.map(|found| found != Found::Label(label.clone()));
        let reads_short = options.short && options.read_only;
        let outgrown = reads_short && label.zones < options.zones_least;
        let (zones, told) = (label.zones.max(options.zones_least), label.zones);
        let label = if outgrown { label.with_zones(&name, zones)? } else { label };
        let wanted = label.file_bytes();
        let is_file = kind == Kind::File;
        let short =
            (actual < wanted).then(|| Short { name: name.clone(), actual, wanted, is_file });
        if let Some(short) = short.as_ref().filter(|_| !reads_short) {
            return Err(short.refusal());
        }
        // A block that cannot be read may be unwritable, too. Through the page cache such an error
        // shows only at a sync of all data, which must not fail for a copy that is not needed.
        let mend = direct || blocks.iter().all(Option::is_some);
        let warnings = Warnings::default();
        let labels = Labels { label, unsound, mend, warnings: warnings.clone() };
        let mut frame = Frame {
            labels,
            root: None,
            next_slot: 0,
            takes_any_slot: false,
            next_sequence: 1,
            call: 0,
            warnings,
        };
        let (mut scarred, mut blank) = (Vec::new(), Vec::new());
        for (slot, offset) in ROOTS_AT.into_iter().enumerate() {
            let block = block(offset);
            let bytes = block.as_ref().map_or(&[][..], AsRef::as_ref);
            match block
                .as_ref()
                .and_then(|block| decode_root(&frame.labels.label.uuid, block.as_ref()))
            {
                Some((sequence, root)) if sequence >= frame.next_sequence => {
                    frame.root = Some(root.into());
                    frame.next_slot = 1 - slot;
                    frame.next_sequence = sequence + 1;
                }
                Some(_) => {}
                None if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) => {
                    scarred.push(offset);
                }
                None => blank.push(offset),
            }
        }
        if frame.next_sequence > 2 {
            // Only a new container has zeroes at a root's place.
            scarred.append(&mut blank);
        }
        if frame.root.is_none() && !scarred.is_empty() {
            return Err(DeviceError::new(
                ErrorKind::Format,
                format!(
                    "{name}: no copy of its root is whole (the blocks at byte {} and byte {}), and \
                     without one nothing in it can be found: all is lost unless one of them can be \
                     restored; only if it was never made to the end, format it again",
                    ROOTS_AT[0], ROOTS_AT[1]
                ),
            ));
        }
        let preallocated = frame.labels.label.preallocated;
        let target = Arc::new(Target::with_claims(file, claims));
        let io = match options.io {
            IoChoice::Pool => Io::pool(target.clone()),
            IoChoice::Uring => Io::uring(target.clone(), runtime)
                .map_err(failed("setting up io_uring (use the thread pool instead) for"))?,
            IoChoice::Auto => {
                Io::uring(target.clone(), runtime).unwrap_or_else(|_| Io::pool(target.clone()))
            }
        };
        let in_doubt = !scarred.is_empty();
        let labels = LABELS_AT.into_iter().zip(damaged).filter(|(_, damaged)| *damaged);
        let labels = labels.map(|(offset, _)| Warning::LabelDamaged { name: name.clone(), offset });
        let roots = scarred.into_iter();
        let roots = roots.map(|offset| Warning::RootDamaged { name: name.clone(), offset });
        let end = short.as_ref().map(|short| short.actual);
        let size = match outgrown {
            true => Some(Warning::LabelOutgrown { name: name.clone(), told, zones, short }),
            false => short.map(Warning::Short),
        };
        frame.warnings.add(labels.chain(roots).chain(size));
        let info = DeviceInfo {
            name: name.clone(),
            uuid: frame.labels.label.uuid,
            zone_blocks: frame.labels.label.zone_blocks,
            zones: frame.labels.label.zones,
            append_blocks_max: APPEND_BLOCKS_MAX.min(frame.labels.label.zone_blocks),
            queue_depth: QUEUE_DEPTH,
            open_zones_max: None,
            sealing: Sealing::Free,
        };
        let shared = Shared {
            table: RefCell::new(ZoneTable::new(info)),
            io,
            target,
            kind,
            direct,
            read_only: options.read_only,
            lost_blocks: options.lost_blocks,
            end,
            preallocated,
            keeps_space: Cell::new(false),
            released: RefCell::default(),
            in_flight: RefCell::new(BTreeMap::new()),
            warnings: frame.warnings.clone(),
            frame: Arc::new(Mutex::new(frame)),
            root_calls: Cell::new(0),
            in_doubt,
            name: name.into(),
        };
        Ok(FileDevice { shared: Rc::new(shared) })
    }
}

/// Refuses a file too short for both labels: without the rest, no content can be found.
pub(super) fn refuse_stump(file: &File, name: &str, actual: u64) -> Result<(), DeviceError> {
    if actual >= LABELS_AT[1] + BLOCK_BYTES as u64 {
        return Ok(());
    }
    let mut head = [0; 8];
    let label = Label { uuid: [0; 16], zone_blocks: 1, zones: 1, preallocated: false };
    let read = file
        .read_at(&mut head, 0)
        .map_err(|error| DeviceError::new(ErrorKind::Io, format!("reading {name}: {error}")))?;
    let why = match read == 8 && label.encode().as_ref().starts_with(&head) {
        true => "it is truncated",
        false => "it is not a Mjolnir store",
    };
    Err(DeviceError::new(
        ErrorKind::Format,
        format!("{name}: {why} (it has only {})", size(actual)),
    ))
}

/// An open and locked file.
pub(crate) struct Acquired {
    pub file: File,
    pub kind: Kind,
    /// Further locks, held as long as the file is open.
    pub claims: Vec<Claim>,
}

/// Opens the file for reading (and more by `options`). Locks it for this process alone, unless it
/// is only to be read.
pub(crate) fn acquire(
    path: &Path,
    options: &mut std::fs::OpenOptions,
    exclusive: bool,
) -> Result<Acquired, DeviceError> {
    let name = path.display();
    let busy_as = |how: Conflict| {
        DeviceError::new(ErrorKind::Busy, format!("{name} is in use by another process{how}"))
    };
    let busy = || busy_as(Conflict::Unknown);
    // Checked before opening: opening a pipe waits, and opening other kinds of file may have
    // effects.
    let before = path.metadata().ok().map(|meta| kind(&meta, &name)).transpose()?;
    // On a block device, this excludes mounts and other holders, too.
    let exclude = exclusive && before == Some(Kind::BlockDevice);
    let flags = if exclude { libc::O_EXCL } else { 0 };
    options.read(true).custom_flags(flags);
    let mut opened = options.open(path);
    for _ in 0..10 {
        if !(exclude && opened.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY))) {
            break;
        }
        // A ring just closed may keep the device for a moment.
        std::thread::sleep(Duration::from_millis(10));
        opened = options.open(path);
    }
    let no_folder =
        || path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let file = opened.map_err(|error| match (error.raw_os_error(), no_folder()) {
        (Some(libc::EBUSY), _) => busy(),
        (Some(libc::ENOENT), Some(folder)) => DeviceError::new(
            ErrorKind::Io,
            format!("opening {name}: there is no folder {}; make it", folder.display()),
        ),
        _ => DeviceError::new(ErrorKind::Io, format!("opening {name}: {error}")),
    })?;
    let lock = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::fs::flock(&file, lock) {
        Ok(()) => {
            let meta = file.metadata().map_err(|error| {
                DeviceError::new(ErrorKind::Io, format!("looking at {name}: {error}"))
            })?;
            let kind = kind(&meta, &name)?;
            let claims = claim(&file, kind, exclusive).map_err(busy_as)?;
            Ok(Acquired { file, kind, claims })
        }
        Err(Errno::WOULDBLOCK) => Err(busy()),
        Err(error) => Err(DeviceError::new(ErrorKind::Io, format!("locking {name}: {error}"))),
    }
}

/// The kind of file, if it can hold a container.
fn kind(meta: &Metadata, name: &impl fmt::Display) -> Result<Kind, DeviceError> {
    match meta.file_type() {
        kind if kind.is_file() => Ok(Kind::File),
        kind if kind.is_block_device() => Ok(Kind::BlockDevice),
        _ => Err(DeviceError::new(
            ErrorKind::Invalid,
            format!("{name} is neither a regular file nor a block device"),
        )),
    }
}

/// Bytes in the file or device.
pub(super) fn length(mut file: &File, kind: Kind) -> io::Result<u64> {
    match kind {
        Kind::File => Ok(file.metadata()?.len()),
        Kind::BlockDevice => io::Seek::seek(&mut file, io::SeekFrom::End(0)),
    }
}

/// Reserves space on the file system.
pub(super) fn reserve(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length)?)
}

/// Switches the file to direct I/O; returns false without a change if that does not work.
fn try_direct(file: &File) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(file) else { return false };
    if rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return false;
    }
    // Some file systems accept the switch and then refuse each request.
    let works = LABELS_AT.into_iter().any(|offset| read_block(file, offset).is_ok());
    if !works {
        let _ = rustix::fs::fcntl_setfl(file, flags);
    }
    works
}

pub(super) fn read_block(file: &File, offset: u64) -> io::Result<AlignedBuf> {
    let mut buffer = AlignedBuf::zeroed(BLOCK_BYTES);
    file.read_exact_at(buffer.as_mut(), offset)?;
    Ok(buffer)
}
