//! A file or block device as a [`Device`].

mod claims;
mod create;
mod failure;
mod labels;
mod lengthen;
mod open;
mod warning;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use mjolnir_device::{
    Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, ZoneTable,
};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};
use rustix::io::Errno;

use crate::container::{LABELS_AT, Label, ROOTS_AT, ZONES_AT, encode_root};
use crate::discard::discard;
use crate::io::{Hold, InFlight, Io, Request, Target, align};

pub(crate) use claims::Claim;
pub use create::CreateOptions;
pub(crate) use failure::Failure;
use labels::Labels;
use open::TRIES;
pub(crate) use open::{Acquired, acquire};
pub use open::{Direct, IoChoice, OpenOptions};
pub use warning::{Short, Warning, Warnings};

/// A container on a file or block device: zones, and a root in two slots.
///
/// Appends and reads go straight to the file, through io_uring or a pool of threads; see
/// `docs/internals/container.md` for their places. A reset returns the space. After a failed flush
/// every later flush fails too, since the system drops data that it could not write: open the
/// device again and recover. Where requests bypass the page cache, nothing is dropped, and flushes may
/// [go on](Abilities::flushes_again).
///
/// Keeps the file locked until the device and every future of its requests are dropped. The lock
/// covers other names of the file, its part of a disk, and loop devices, as far as these are
/// visible.
pub struct FileDevice {
    shared: Rc<Shared>,
}

struct Shared {
    table: RefCell<ZoneTable>,
    io: Io,
    target: Arc<Target>,
    kind: Kind,
    direct: bool,
    read_only: bool,
    lost_blocks: bool,
    /// The end of the file or device in bytes, if it lies before the end of the last zone.
    end: Option<u64>,
    preallocated: bool,
    /// The medium takes no space back.
    keeps_space: Cell<bool>,
    /// Zones released and not reset since.
    released: RefCell<BTreeSet<ZoneId>>,
    /// By zone, for zones that were reset since opening.
    in_flight: RefCell<BTreeMap<ZoneId, Arc<InFlight>>>,
    frame: Arc<Mutex<Frame>>,
    root_calls: Cell<u64>,
    /// One of the roots is damaged.
    in_doubt: bool,
    warnings: Warnings,
    name: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    BlockDevice,
}

/// Label and root, as on media.
struct Frame {
    labels: Labels,
    root: Option<Bytes>,
    /// The slot to write next: the one that does not hold the root.
    next_slot: usize,
    /// The last root could not be written to that slot: the next one may go to the other.
    takes_any_slot: bool,
    next_sequence: u64,
    /// The number of the last executed call of `write_root`.
    call: u64,
    warnings: Warnings,
}

impl FileDevice {
    /// The warnings about the container.
    pub fn warnings(&self) -> Warnings {
        self.shared.warnings.clone()
    }

    /// Whether requests go through io_uring (or else through a pool of threads).
    pub fn is_uring(&self) -> bool {
        matches!(self.shared.io, Io::Uring(_))
    }

    /// The open file or block device.
    pub(crate) fn file(&self) -> &File {
        &self.shared.target.file
    }

    /// Writes `data` at `at`, if the `claim` on the table admits it.
    fn write(
        &self,
        at: Pba,
        data: Vec<Bytes>,
        claim: fn(&mut ZoneTable, Pba, &[Bytes]) -> Result<(), DeviceError>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let shared = &self.shared;
        let started = shared.check_writable("append to").and_then(|()| {
            let mut table = shared.table.borrow_mut();
            claim(&mut table, at, &data)?;
            let hold = shared.in_flight(table.info().zone_of(at)).hold();
            let pieces = if shared.direct { align(data) } else { data };
            let offset = shared.byte(at);
            let request = Request::Write { offset, pieces };
            let failure = shared.failure("writing", Some(offset));
            Ok((shared.io.start(request, Some(hold)), failure))
        });
        let shared = shared.clone();
        async move {
            let (write, failure) = started?;
            match write.await {
                Ok(_) => Ok(at),
                Err(error) => Err(shared.unless_gone(failure.of_write(&error)).await),
            }
        }
    }

    /// Whether requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.shared.direct
    }
}

impl Shared {
    /// A block's offset in the file, in bytes.
    fn byte(&self, pba: Pba) -> u64 {
        ZONES_AT + pba.0 * BLOCK_SIZE
    }

    fn check_writable(&self, what: &str) -> Result<(), DeviceError> {
        if self.read_only {
            return Err(DeviceError::new(
                ErrorKind::Invalid,
                format!("{what} {}: it was opened for reading only", self.name),
            ));
        }
        Ok(())
    }

    fn in_flight(&self, zone: ZoneId) -> Arc<InFlight> {
        self.in_flight.borrow_mut().entry(zone).or_default().clone()
    }

    fn failure(&self, what: &'static str, offset: Option<u64>) -> Failure {
        Failure { what, name: self.name.clone(), offset }
    }

    /// Runs `job` on the frame, on another thread; jobs run one at a time. A started job continues
    /// if the future is dropped.
    fn with_frame<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Frame, &Target) -> Result<T, DeviceError> + Send + 'static,
    ) -> impl Future<Output = Result<T, DeviceError>> + 'static {
        let (frame, target) = (self.frame.clone(), self.target.clone());
        blocking::unblock(move || {
            job(&mut frame.lock().unwrap_or_else(PoisonError::into_inner), &target)
        })
    }
}

/// Writes one block, on the calling thread.
fn write_block(target: &Target, block: &AlignedBuf, offset: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    target.file.write_all_at(block.as_ref(), offset)
}

impl Device for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.shared.table.borrow().info().clone()
    }

    fn abilities(&self) -> &dyn Abilities {
        self
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.write(at, data, |table, at, data| table.claim(at, data).map(|_| ()))
    }

    fn append_again(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.write(at, data, |table, at, data| table.claim_again(at, data).map(|_| ()))
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let shared = &self.shared;
        let checked = shared.table.borrow().check_read(from, buffer.len());
        let started = checked.map(|_| {
            let offset = shared.byte(from);
            let failure = shared.failure("reading", Some(offset));
            let length = buffer.len();
            let read = match shared.end.filter(|end| offset + length as u64 > *end) {
                None => Ok(shared.io.start(Request::Read { offset, buffer }, None)),
                Some(end) => Err(shared.read_to_end(offset, buffer, end)),
            };
            (read, failure, offset, length)
        });
        let shared = shared.clone();
        async move {
            let (read, failure, offset, length) = started?;
            let read = match read {
                Ok(whole) => whole.await,
                Err(short) => short.await,
            };
            let (mut error, ends) = match read {
                Ok(buffer) => return Ok(buffer.expect("a read returns its buffer")),
                Err(error) => {
                    (failure.of_read(&error), error.kind() == io::ErrorKind::UnexpectedEof)
                }
            };
            if shared.lost_blocks && error.kind == ErrorKind::Io {
                // Retries: a transient error loses no data.
                for _ in 1..TRIES {
                    if let Ok(buffer) = shared.read_again(offset, length).await {
                        return Ok(buffer);
                    }
                }
                if shared.is_there().await {
                    error.kind = ErrorKind::Unreadable;
                }
            }
            // A file that ends too early is there.
            if ends {
                return Err(error);
            }
            Err(shared.unless_gone(error).await)
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = self.shared.clone();
        let started = self.shared.io.start(Request::Sync, None);
        async move {
            let flushed = async {
                started.await?;
                shared.target.confirm_sync().await
            };
            match flushed.await {
                Ok(()) => Ok(()),
                Err(error) => {
                    let error = shared.failure("flushing", None).of_write(&error);
                    Err(shared.unless_gone(error).await)
                }
            }
        }
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let sealed = self.shared.table.borrow_mut().seal(zone);
        async move { sealed }
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = self.shared.clone();
        let begun = shared.check_writable("reset on").and_then(|()| {
            let mut table = shared.table.borrow_mut();
            Ok((table.begin_reset(zone)?, table.info().zone_blocks))
        });
        async move {
            let (ticket, zone_blocks) = begun?;
            // Writes and resets whose futures were dropped may still be in flight.
            let in_flight = shared.in_flight(zone);
            in_flight.idle().await;
            if !shared.table.borrow().is_current(ticket) {
                return Err(DeviceError::new(
                    ErrorKind::Invalid,
                    format!("reset of {zone} of {}: another one was begun", shared.name),
                ));
            }
            let offset = shared.byte(zone.start(zone_blocks));
            let length = zone_blocks * BLOCK_SIZE;
            if !shared.released.borrow_mut().remove(&zone) {
                // Only a hint to the medium: nothing depends on it, and a failing medium will fail
                // the next write, too.
                let _ = shared.give_back(offset, length, in_flight.hold()).await;
            }
            shared.table.borrow_mut().end_reset(ticket);
            Ok(())
        }
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = self.shared.clone();
        let begun = shared.check_writable("giving back space of").and_then(|()| {
            let mut table = shared.table.borrow_mut();
            table.seal(zone)?;
            let zone_blocks = table.info().zone_blocks;
            let (offset, length) = (shared.byte(zone.start(zone_blocks)), zone_blocks * BLOCK_SIZE);
            // Held from the call on, so that a later reset waits for it.
            let hold = shared.in_flight(zone).hold();
            Ok((offset, shared.give_back(offset, length, hold)))
        });
        async move {
            let (offset, give_back) = begun?;
            match give_back.await {
                Ok(()) => {
                    shared.released.borrow_mut().insert(zone);
                    Ok(())
                }
                Err(error) if cannot(&error) => {
                    if !shared.keeps_space.replace(true) {
                        let (name, why) = (shared.name.to_string(), error.to_string());
                        shared.warnings.add([Warning::KeepsSpace { name, why }].into_iter());
                    }
                    Ok(())
                }
                Err(error) => Err(shared.failure("giving back", Some(offset)).of_write(&error)),
            }
        }
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.shared.with_frame(|frame, _| Ok(frame.root.clone()))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = &self.shared;
        let checked = shared
            .check_writable("writing the root of")
            .and_then(|()| shared.table.borrow().check_root(root.len(), Self::ROOT_BYTES_MAX));
        let started = checked.map(|()| {
            let call = shared.root_calls.get() + 1;
            shared.root_calls.set(call);
            let failure = shared.failure("writing the root of", None);
            let label_failure = shared.failure("mending a label of", None);
            shared.with_frame(move |frame, target| {
                // Threads may run jobs out of order; the last call counts.
                if call < frame.call {
                    return Ok(());
                }
                frame.call = call;
                let block = encode_root(&frame.labels.label.uuid, frame.next_sequence, &root);
                // Never reused, whatever happens to the slot.
                frame.next_sequence += 1;
                let mut slot = frame.next_slot;
                if let Err(error) = write_block(target, &block, ROOTS_AT[slot]) {
                    // Only a slot that failed before is given up: the other one has the present root,
                    // which a drive that fails there, too, might lose.
                    slot = 1 - slot;
                    if !std::mem::replace(&mut frame.takes_any_slot, true)
                        || write_block(target, &block, ROOTS_AT[slot]).is_err()
                    {
                        return Err(failure.of_write(&error));
                    }
                }
                target.sync().map_err(|error| failure.of_write(&error))?;
                frame.warnings.mended(ROOTS_AT[slot]);
                frame.next_slot = 1 - slot;
                frame.takes_any_slot = false;
                frame.root = Some(Bytes::copy_from_slice(&root));
                frame.labels.mend(target).map_err(|error| label_failure.of_write(&error))
            })
        });
        async move { started?.await }
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let shared = self.shared.clone();
        let begun = shared.check_writable("growing").and_then(|()| {
            let table = shared.table.borrow();
            table.check_grow(Label::zones_in(bytes, table.info().zone_blocks))
        });
        async move {
            let wanted = begun?;
            let (kind, failure) = (shared.kind, shared.failure("growing", None));
            let grown = shared.with_frame(move |frame, target| {
                let label = frame.labels.label.clone();
                let label = Label { zones: wanted.max(label.zones), ..label };
                if label != frame.labels.label {
                    make_room(target, kind, &frame.labels.label, &label, &failure)?;
                    frame
                        .labels
                        .replace(label, target)
                        .map_err(|error| failure.of_write(&error))?;
                }
                Ok(frame.labels.label.zones)
            });
            let zones = grown.await?;
            shared.table.borrow_mut().grow(zones);
            Ok(zones)
        }
    }
}

impl Abilities for FileDevice {
    fn is_root_in_doubt(&self) -> bool {
        self.shared.in_doubt
    }

    fn missing_from(&self) -> Option<Pba> {
        self.shared.end.map(|end| Pba(end.saturating_sub(ZONES_AT) / BLOCK_SIZE))
    }

    fn gives_back(&self) -> bool {
        let shared = &self.shared;
        !shared.read_only && !shared.preallocated && !shared.keeps_space.get()
    }

    fn flushes_again(&self) -> bool {
        self.shared.direct
    }

    fn appends_again(&self) -> bool {
        true
    }

    fn forgive_failed_flush(&self) {
        if self.shared.direct && !self.shared.read_only {
            self.shared.target.forgive();
        }
    }

    fn held_bytes(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        let of_file = self.shared.kind == Kind::File;
        of_file.then(|| self.shared.target.file.metadata().ok())?.map(|meta| meta.blocks() * 512)
    }
}

impl Shared {
    /// The error, which says that the device is gone if no label can be read either.
    async fn unless_gone(&self, mut error: DeviceError) -> DeviceError {
        if error.kind == ErrorKind::Io && !self.is_there().await {
            error.kind = ErrorKind::Gone;
        }
        error
    }

    /// Whether a label can be read: then the medium is present, and other unreadable blocks are
    /// lost.
    async fn is_there(&self) -> bool {
        for offset in LABELS_AT {
            if self.read_again(offset, BLOCK_BYTES).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Reads up to the end of the file; the rest is zeroes.
    fn read_to_end(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
        end: u64,
    ) -> impl Future<Output = io::Result<Option<AlignedBuf>>> + 'static {
        use std::os::unix::fs::FileExt;
        let target = self.target.clone();
        let there = end.saturating_sub(offset).min(buffer.len() as u64) as usize;
        blocking::unblock(move || {
            let mut done = 0;
            while done < there {
                match target.file.read_at(&mut buffer.as_mut()[done..], offset + done as u64) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => done += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            buffer.as_mut()[there..].fill(0);
            Ok(Some(buffer))
        })
    }

    async fn read_again(&self, offset: u64, length: usize) -> io::Result<AlignedBuf> {
        let buffer = AlignedBuf::zeroed(length);
        let read = self.io.start(Request::Read { offset, buffer }, None).await?;
        Ok(read.expect("a read returns its buffer"))
    }

    /// Tells the medium that a region is no longer needed. Begins with the call. Does nothing if
    /// the space was preallocated, or the medium takes none back.
    fn give_back(
        &self,
        offset: u64,
        length: u64,
        hold: Hold,
    ) -> impl Future<Output = io::Result<()>> + use<> {
        let wanted = !self.preallocated && !self.keeps_space.get();
        let mut punch = None;
        let mut discards = None;
        match self.kind {
            _ if !wanted => drop(hold),
            Kind::File => {
                punch = Some(self.io.start(Request::Punch { offset, length }, Some(hold)));
            }
            Kind::BlockDevice => {
                let target = self.target.clone();
                discards = Some(blocking::unblock(move || {
                    let result = discard(&target.file, offset, length);
                    drop(hold);
                    result
                }));
            }
        }
        async move {
            if let Some(punch) = punch {
                punch.await?;
            }
            if let Some(discards) = discards {
                discards.await?;
            }
            Ok(())
        }
    }
}

/// Whether the error of an attempt to return space means that every later attempt will fail.
fn cannot(error: &io::Error) -> bool {
    let never = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| never.contains(&errno))
}

/// Extends the file durably to the length of `to`.
fn make_room(
    target: &Target,
    kind: Kind,
    from: &Label,
    to: &Label,
    failure: &Failure,
) -> Result<(), DeviceError> {
    let (start, end) = (from.file_bytes(), to.file_bytes());
    let there = open::length(&target.file, kind).map_err(|error| failure.of_write(&error))?;
    if kind == Kind::BlockDevice && there < end {
        return Err(DeviceError::new(
            ErrorKind::Invalid,
            format!(
                "growing {} to {end} bytes: the block device has {there} bytes; enlarge it first",
                failure.name
            ),
        ));
    }
    let make = || {
        if there < end {
            target.file.set_len(end)?;
        }
        if to.preallocated && kind == Kind::File {
            open::reserve(&target.file, start, end - start)?;
        }
        target.sync_all()
    };
    make().map_err(|error| {
        if there < end {
            // Partly obtained space is returned.
            let _ = target.file.set_len(there);
        }
        failure.of_write(&error)
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::poll_once;
    use mjolnir_host::{HostRuntime, run};

    use super::*;

    /// A write whose future was dropped may still be on its way; it must not land in what comes
    /// after the reset.
    #[test]
    fn a_reset_waits_for_writes_that_nobody_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.mj");
        let create = CreateOptions {
            bytes: Some(17 << 20),
            zone_blocks: 256,
            preallocate: true,
            uuid: [1; 16],
            overwrite: false,
        };
        FileDevice::create(&path, create).unwrap();
        run(async |runtime: HostRuntime| {
            let device = FileDevice::open(&path, OpenOptions::default(), &runtime).unwrap();
            let (zone, other) = (ZoneId(1), ZoneId(2));
            let write = device.shared.in_flight(zone).hold();
            let mut reset = pin!(device.reset(zone));
            assert!(poll_once(&mut reset).await.is_none(), "the write is still on its way");
            device.reset(other).await.expect("other zones need not wait");
            // A second reset overtakes the first one, which must not do its work afterwards.
            let second = device.reset(zone);
            drop(write);
            second.await.unwrap();
            assert_eq!(reset.await.unwrap_err().kind, ErrorKind::Invalid);
            let data = vec![Bytes::from(vec![1; 4096])];
            device.append(zone.start(256), data).await.expect("the zone is empty");
        });
    }
}
