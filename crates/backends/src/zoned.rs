//! A zoned block device as a [`Device`].
//!
//! A zone of the device is a zone of the contract, from its start to the least capacity of all. The
//! first two zones to be written in order hold the label and the root (`zoned/roots.rs`); conventional zones
//! are not used. One write is under way to a zone (`zoned/lane.rs`).
//!
//! A zone is opened before its first write, so that its place among the open ones is certain. A seal finishes
//! a zone that is nearly full, and otherwise closes it: to finish an empty zone takes a drive as long as to
//! write it. A closed zone counts among the active ones, of which a device has few. If there are too many, the
//! fullest is finished.

#[cfg(test)]
mod emulated;
mod kernel;
mod lane;
mod linux;
mod roots;
mod shape;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use mjolnir_device::{
    Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Runtime, Sealing, ZoneTable,
};
use mjolnir_units::{BLOCK_SIZE, Pba, ZoneId};
use rustix::fs::OFlags;

use crate::container::ZonedLabel;
use crate::file::{Acquired, Failure, acquire};
use crate::io::{Io, Target};
use kernel::{Command, Condition, Kernel, Zone};
use lane::{Answer, Lane};
use linux::Linux;
pub(crate) use linux::zone_length;
use roots::{Pair, Roots};
use shape::Shape;

/// A zone of which less than one in so many blocks is left is finished when it is sealed.
const NEARLY_FULL: u64 = 8;
/// A number of requests in flight that keeps today's drives busy.
const QUEUE_DEPTH: usize = 32;

/// The options of a new store on a zoned device.
#[derive(Clone, Copy, Debug)]
pub struct ZonedCreateOptions {
    /// The store's identity; the caller draws it at random.
    pub uuid: [u8; 16],
    /// Destroy the present content.
    pub overwrite: bool,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A zoned block device. See the module.
pub struct ZonedDevice<K: Kernel = Linux> {
    shared: Rc<Shared<K>>,
}

struct Shared<K> {
    kernel: K,
    table: RefCell<ZoneTable>,
    /// The zones for data.
    zones: Vec<Zone>,
    active_max: Option<u32>,
    longest: u64,
    lanes: RefCell<BTreeMap<ZoneId, Rc<Lane>>>,
    /// Zones that are written in part, each with its blocks.
    active: RefCell<BTreeMap<ZoneId, u64>>,
    /// Zones that were opened, and not closed, finished or filled since.
    open: RefCell<BTreeSet<ZoneId>>,
    /// The pair of the root, but while a task writes to it.
    roots: RefCell<Option<Roots>>,
    /// Roots that wait to be written.
    new_roots: RefCell<VecDeque<(Bytes, Rc<Answer>)>>,
    root: RefCell<Option<Bytes>>,
    in_doubt: bool,
    read_only: bool,
    /// Writes that the device refused.
    refused: Cell<u64>,
    name: Arc<str>,
    spawn: Box<dyn Fn(Task)>,
}

impl ZonedDevice {
    /// Whether `path` is a zoned block device.
    pub fn is_one(path: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        let is_block_device =
            |path: &Path| path.metadata().is_ok_and(|meta| meta.file_type().is_block_device());
        is_block_device(path)
            && std::fs::File::open(path).is_ok_and(|file| zone_length(&file).is_some())
    }

    /// Makes a store on the zoned device at `path`, durably. Every zone is reset.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it has content that must not be overwritten, or too few zones;
    /// [`Busy`](ErrorKind::Busy) if it is in use; else [`Io`](ErrorKind::Io).
    pub async fn create(
        path: &Path,
        options: ZonedCreateOptions,
        runtime: &impl Runtime,
    ) -> Result<(), DeviceError> {
        let name = path.display().to_string();
        let linux = Linux::acquire(path, false, runtime)?;
        create_on(linux, &name, options).await
    }

    /// Opens the store on the zoned device at `path`; its requests complete on `runtime`'s thread.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy) if another process has it open, [`Format`](ErrorKind::Format) if it holds no
    /// store that this program can read, else [`Io`](ErrorKind::Io).
    pub async fn open(
        path: &Path,
        read_only: bool,
        runtime: &impl Runtime,
    ) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        let linux = Linux::acquire(path, read_only, runtime)?;
        open_on(linux, &name, read_only, runtime).await
    }
}

impl ZonedDevice {
    /// Whether requests go through io_uring (or else through a pool of threads).
    pub fn is_uring(&self) -> bool {
        self.shared.kernel.is_uring()
    }

    /// The open device.
    pub(crate) fn file(&self) -> &std::fs::File {
        self.shared.kernel.file()
    }
}

impl Linux {
    fn acquire(path: &Path, read_only: bool, runtime: &impl Runtime) -> Result<Self, DeviceError> {
        let mut how = std::fs::OpenOptions::new();
        how.write(!read_only);
        let Acquired { file, claims, .. } = acquire(path, &mut how, !read_only)?;
        let failed = |error: io::Error| {
            let what = format!("setting up direct I/O to {}: {error}", path.display());
            DeviceError::new(ErrorKind::Io, what)
        };
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
        rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT)
            .map_err(|error| failed(error.into()))?;
        let target = Arc::new(Target::with_claims(file, claims));
        let io = Io::uring(target.clone(), runtime).unwrap_or_else(|_| Io::pool(target.clone()));
        Ok(Linux::new(target, io))
    }
}

fn failure(what: &'static str, name: &Arc<str>, offset: Option<u64>) -> Failure {
    Failure { what, name: name.clone(), offset }
}

async fn create_on<K: Kernel>(
    kernel: K,
    name: &str,
    options: ZonedCreateOptions,
) -> Result<(), DeviceError> {
    let name: Arc<str> = name.into();
    let failed = failure("making a store on", &name, None);
    let zones = kernel.zones().map_err(|error| failed.of_read(&error))?;
    let shape = Shape::of(&name, &zones, kernel.limits())?;
    let all: Vec<Zone> = shape.roots.iter().chain(&shape.data).copied().collect();
    if !options.overwrite
        && let Some(zone) = all.iter().find(|zone| zone.condition != Condition::Empty)
    {
        let why = match Roots::read(&kernel, shape.roots).await {
            Pair::Store(_) => "it holds a Mjolnir store".into(),
            _ => format!("it holds something (the zone at byte {} is not empty)", zone.start),
        };
        return Err(DeviceError::new(
            ErrorKind::Invalid,
            format!(
                "making a store on {name}: {why}, which would be destroyed; ask to overwrite it, or choose \
                 another device"
            ),
        ));
    }
    // The root's zones first: a crash in between leaves no store.
    for zone in &all {
        let is_unusable = matches!(zone.condition, Condition::ReadOnly | Condition::Offline);
        let is_roots = shape.roots.contains(zone);
        if is_unusable && is_roots {
            return Err(DeviceError::new(
                ErrorKind::Invalid,
                format!(
                    "making a store on {name}: the zone at byte {} takes no writes, and the store's root is \
                     kept there; use another device",
                    zone.start
                ),
            ));
        }
        if is_roots || !(is_unusable || zone.condition == Condition::Empty) {
            let reset = kernel.command(Command::Reset, zone).await;
            reset.map_err(|error| failed.of_write(&error))?;
        }
    }
    let label = ZonedLabel {
        uuid: options.uuid,
        zone_blocks: shape.zone_blocks,
        zones: shape.data.len() as u32,
    };
    let begun = Roots::new(shape.roots, label).begin(&kernel).await;
    begun.map_err(|error| failed.of_write(&error))
}

async fn open_on<K: Kernel>(
    kernel: K,
    name: &str,
    read_only: bool,
    runtime: &impl Runtime,
) -> Result<ZonedDevice<K>, DeviceError> {
    let name: Arc<str> = name.into();
    let failed = failure("opening", &name, None);
    let refuse = |why: String| DeviceError::new(ErrorKind::Format, format!("{name}: {why}"));
    let zones = kernel.zones().map_err(|error| failed.of_read(&error))?;
    let shape = Shape::of(&name, &zones, kernel.limits())?;
    if !read_only {
        // From here on this program relies on what an earlier one wrote and may not have made durable.
        kernel.flush().await.map_err(|error| failed.of_write(&error))?;
    }
    let roots = match Roots::read(&kernel, shape.roots).await {
        Pair::Store(roots) => roots,
        Pair::Nothing => {
            return Err(refuse("it is not a Mjolnir store (there is no label)".into()));
        }
        Pair::Refused(why) => return Err(refuse(why)),
    };
    let label = roots.label().clone();
    if label.zone_blocks > shape.zone_blocks || label.zones as usize > shape.data.len() {
        return Err(refuse(format!(
            "the store has {} segments of {} blocks, and the device {} zones of {}; open it on the device \
             that it was made on",
            label.zones,
            label.zone_blocks,
            shape.data.len(),
            shape.zone_blocks
        )));
    }
    let data = &shape.data[..label.zones as usize];
    let numbered = || (0..).map(ZoneId).zip(data);
    if !read_only {
        // What an earlier program left open would be missing among those that may be.
        for zone in shape.roots.iter().chain(data) {
            if zone.condition == Condition::Open {
                let closed = kernel.command(Command::Close, zone).await;
                closed.map_err(|error| failed.of_write(&error))?;
            }
        }
    }
    let active = numbered().filter(|(_, zone)| zone.condition.is_active() && zone.written > 0);
    let active = active.map(|(id, zone)| (id, zone.written / BLOCK_SIZE)).collect();
    let longest = (kernel.longest() / BLOCK_SIZE).clamp(1, label.zone_blocks) * BLOCK_SIZE;
    let info = DeviceInfo {
        name: name.to_string(),
        uuid: label.uuid,
        zone_blocks: label.zone_blocks,
        zones: label.zones,
        append_blocks_max: longest / BLOCK_SIZE,
        queue_depth: QUEUE_DEPTH,
        open_zones_max: shape.open,
        sealing: Sealing::Free,
    };
    let runtime = runtime.clone();
    let shared = Shared {
        kernel,
        table: RefCell::new(ZoneTable::new(info)),
        zones: data.to_vec(),
        active_max: shape.active,
        longest,
        lanes: RefCell::default(),
        active: RefCell::new(active),
        open: RefCell::default(),
        root: RefCell::new(roots.root.clone()),
        in_doubt: roots.in_doubt,
        roots: RefCell::new(Some(roots)),
        new_roots: RefCell::default(),
        read_only,
        refused: Cell::new(0),
        name,
        spawn: Box::new(move |task| runtime.spawn(task)),
    };
    Ok(ZonedDevice { shared: Rc::new(shared) })
}

impl<K: Kernel> ZonedDevice<K> {
    /// Writes that the device refused since it was opened.
    pub fn refused_writes(&self) -> u64 {
        self.shared.refused.get()
    }
}

impl<K: Kernel> Shared<K> {
    fn failure(&self, what: &'static str, offset: Option<u64>) -> Failure {
        failure(what, &self.name, offset)
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

    fn lane(&self, zone: ZoneId) -> Rc<Lane> {
        self.lanes.borrow_mut().entry(zone).or_default().clone()
    }

    fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.0 as usize]
    }

    /// Writes what a lane's queue holds, until it is empty.
    async fn write_lane(self: Rc<Self>, zone: ZoneId, lane: Rc<Lane>) {
        while let Some(mut batch) = lane.next(self.longest) {
            let pieces = std::mem::take(&mut batch.pieces);
            let written = self.write_batch(zone, batch.offset, pieces).await;
            lane.ended(batch, written);
        }
    }

    async fn write_batch(
        self: &Rc<Self>,
        zone: ZoneId,
        offset: u64,
        pieces: Vec<Bytes>,
    ) -> Result<(), DeviceError> {
        let at = self.zone(zone).start + offset * BLOCK_SIZE;
        if offset == 0 {
            self.begin_zone(zone).await?;
        }
        let blocks = pieces.iter().map(Bytes::len).sum::<usize>() as u64 / BLOCK_SIZE;
        if let Err(error) = self.kernel.write(at, pieces).await {
            self.refused.set(self.refused.get() + 1);
            let mut error = self.failure("writing", Some(at)).of_write(&error);
            if error.kind != ErrorKind::Gone
                && let Ok(now) = self.kernel.zone(self.zone(zone)).await
            {
                if let Some(state) = unusable(now.condition) {
                    error.context += &format!("; the zone is {state} now");
                }
                if !now.condition.is_active() {
                    self.is_inactive(zone);
                }
            }
            return Err(error);
        }
        self.active.borrow_mut().insert(zone, offset + blocks);
        if (offset + blocks) * BLOCK_SIZE >= self.zone(zone).capacity {
            self.is_inactive(zone);
        }
        Ok(())
    }

    /// The zone is full, empty, or of no use.
    fn is_inactive(&self, zone: ZoneId) {
        self.active.borrow_mut().remove(&zone);
        self.open.borrow_mut().remove(&zone);
    }

    /// Does something to a zone when no other command to it is under way, whether or not the future is
    /// polled.
    fn in_turn<W, F>(
        self: &Rc<Self>,
        zone: ZoneId,
        after: After,
        work: W,
    ) -> impl Future<Output = Result<(), DeviceError>> + use<W, F, K>
    where
        W: FnOnce(Rc<Self>) -> F + 'static,
        F: Future<Output = Result<(), DeviceError>> + 'static,
    {
        let (shared, lane, answer) = (self.clone(), self.lane(zone), Rc::<Answer>::default());
        let given = answer.clone();
        (self.spawn)(Box::pin(async move {
            // Not in the turn: the appends may have to open the zone in one of their own.
            if after == After::Appends {
                lane.until_idle().await;
            }
            let turn = lane.turn().await;
            let done = work(shared).await;
            drop(turn);
            given.give(done);
        }));
        async move { answer.wait().await }
    }

    /// Makes room among the active zones, and opens one that is empty.
    async fn begin_zone(self: &Rc<Self>, zone: ZoneId) -> Result<(), DeviceError> {
        // One that cannot be finished is no reason not to open another.
        let mut tried = BTreeSet::new();
        while let Some(most) = self.active_max
            && self.active.borrow().len() >= most as usize
        {
            let Some(fullest) = self.fullest_sealed(&tried) else { break };
            tried.insert(fullest);
            let finished = self.in_turn(fullest, After::Commands, move |shared| async move {
                let is_needed = shared.table.borrow().is_sealed(fullest)
                    && shared.active.borrow().contains_key(&fullest);
                if is_needed { shared.finish(fullest).await } else { Ok(()) }
            });
            let _ = finished.await;
        }
        self.in_turn(zone, After::Commands, move |shared| async move {
            let opened = shared.kernel.command(Command::Open, shared.zone(zone)).await;
            opened.map_err(|error| {
                let start = shared.zone(zone).start;
                shared.failure("opening a zone of", Some(start)).of_write(&error)
            })?;
            shared.active.borrow_mut().insert(zone, 0);
            shared.open.borrow_mut().insert(zone);
            Ok(())
        })
        .await
    }

    /// The active zone that takes no appends and has the fewest blocks left, but for those.
    fn fullest_sealed(&self, but: &BTreeSet<ZoneId>) -> Option<ZoneId> {
        let table = self.table.borrow();
        let active = self.active.borrow();
        let sealed =
            active.iter().filter(|(zone, _)| table.is_sealed(**zone) && !but.contains(zone));
        sealed.max_by_key(|(_, blocks)| **blocks).map(|(zone, _)| *zone)
    }

    /// Has an active zone count among these no longer. In the zone's turn.
    async fn finish(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let finished = self.kernel.command(Command::Finish, self.zone(zone)).await;
        self.unless_inactive(zone, "finishing a zone of", finished).await?;
        self.is_inactive(zone);
        Ok(())
    }

    /// The failure of a command, unless the zone is not active any more: it may have turned read-only.
    async fn unless_inactive(
        &self,
        zone: ZoneId,
        what: &'static str,
        done: io::Result<()>,
    ) -> Result<(), DeviceError> {
        let Err(error) = done else { return Ok(()) };
        let now = self.kernel.zone(self.zone(zone)).await;
        if now.is_ok_and(|now| !now.condition.is_active()) {
            self.is_inactive(zone);
            return Ok(());
        }
        Err(self.failure(what, Some(self.zone(zone).start)).of_write(&error))
    }

    /// Has a zone that takes no more appends count among the open ones no longer. In the zone's turn.
    async fn end_zone(&self, zone: ZoneId, has_failed: bool) -> Result<(), DeviceError> {
        // It may have been reset since the seal was asked for.
        if !self.open.borrow().contains(&zone) || !self.table.borrow().is_sealed(zone) {
            return Ok(());
        }
        let blocks = self.active.borrow().get(&zone).copied().unwrap_or(0);
        let capacity = self.zone(zone).capacity / BLOCK_SIZE;
        if has_failed || blocks + capacity / NEARLY_FULL >= capacity {
            // Of one that failed, the next reset shows what it is good for. Until then it takes no place.
            return self.finish(zone).await;
        }
        let closed = self.kernel.command(Command::Close, self.zone(zone)).await;
        self.unless_inactive(zone, "closing a zone of", closed).await?;
        self.open.borrow_mut().remove(&zone);
        Ok(())
    }

    /// Reads the first `there` bytes; the others are zeroes.
    async fn read_there(
        &self,
        at: u64,
        there: usize,
        length: usize,
        failure: Failure,
    ) -> Result<AlignedBuf, DeviceError> {
        let mut whole = AlignedBuf::zeroed(length);
        if there > 0 {
            let read = self.kernel.read(at, AlignedBuf::zeroed(there)).await;
            let read = read.map_err(|error| failure.of_read(&error))?;
            whole.as_mut()[..there].copy_from_slice(read.as_ref());
        }
        Ok(whole)
    }

    /// Writes the roots that wait, one after the other.
    async fn write_roots(self: Rc<Self>) {
        let Some(mut roots) = self.roots.borrow_mut().take() else { return };
        loop {
            let next = self.new_roots.borrow_mut().pop_front();
            let Some((root, answer)) = next else { break };
            let written = roots.write(&self.kernel, &root).await;
            if written.is_ok() {
                *self.root.borrow_mut() = Some(root);
            }
            let failure = self.failure("writing the root of", None);
            answer.give(written.map_err(|error| failure.of_write(&error)));
        }
        *self.roots.borrow_mut() = Some(roots);
    }
}

/// What a command to a zone waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// Other commands to it.
    Commands,
    /// Its appends, too; it takes no more of them.
    Appends,
}

/// The word for a zone that takes no writes any more.
fn unusable(condition: Condition) -> Option<&'static str> {
    match condition {
        Condition::ReadOnly => Some("read-only"),
        Condition::Offline => Some("offline"),
        _ => None,
    }
}

impl<K: Kernel> Device for ZonedDevice<K> {
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
        let shared = &self.shared;
        let begun = shared.check_writable("append to").and_then(|()| {
            let mut table = shared.table.borrow_mut();
            table.claim(at, &data)?;
            let (zone, offset) = (table.info().zone_of(at), at.offset(table.info().zone_blocks));
            drop(table);
            let lane = shared.lane(zone);
            let (answer, is_idle) = lane.push(offset, data);
            if is_idle {
                (shared.spawn)(Box::pin(shared.clone().write_lane(zone, lane)));
            }
            Ok(answer)
        });
        async move {
            begun?.wait().await?;
            Ok(at)
        }
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let shared = &self.shared;
        let checked = shared.table.borrow().check_read(from, buffer.len());
        let started = checked.map(|_| {
            let zone_blocks = shared.table.borrow().info().zone_blocks;
            let zone = shared.zone(from.zone(zone_blocks));
            let at = zone.start + from.offset(zone_blocks) * BLOCK_SIZE;
            let length = buffer.len();
            (shared.kernel.read(at, buffer), *zone, at, length, shared.failure("reading", Some(at)))
        });
        let shared = shared.clone();
        async move {
            let (read, zone, at, length, failure) = started?;
            let error = match read.await {
                Ok(buffer) => return Ok(buffer),
                Err(error) => error,
            };
            let mut error = failure.of_read(&error);
            if error.kind == ErrorKind::Gone {
                return Err(error);
            }
            match shared.kernel.zone(&zone).await {
                Ok(now) if now.condition == Condition::Offline => {
                    error.kind = ErrorKind::Unreadable;
                    error.context += "; the zone is offline";
                }
                // Some disks read nothing past the write pointer.
                Ok(now) if !matches!(now.condition, Condition::Full | Condition::ReadOnly) => {
                    let there = (now.start + now.written).saturating_sub(at) as usize;
                    if there < length {
                        return shared.read_there(at, there, length, failure).await;
                    }
                }
                _ => {}
            }
            Err(error)
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let flush = self.shared.kernel.flush();
        let failure = self.shared.failure("flushing", None);
        async move { flush.await.map_err(|error| failure.of_write(&error)) }
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = self.shared.clone();
        let sealed = shared.table.borrow_mut().seal(zone);
        let ended = sealed.map(|()| {
            shared.in_turn(zone, After::Appends, move |shared| async move {
                shared.end_zone(zone, shared.lane(zone).has_failed()).await
            })
        });
        async move { ended?.await }
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = &self.shared;
        let begun = shared
            .check_writable("reset on")
            .and_then(|()| shared.table.borrow_mut().begin_reset(zone));
        let reset = begun.map(|ticket| {
            shared.in_turn(zone, After::Appends, move |shared| async move {
                if !shared.table.borrow().is_current(ticket) {
                    return Err(DeviceError::new(
                        ErrorKind::Invalid,
                        format!("reset of {zone} of {}: another one was begun", shared.name),
                    ));
                }
                let reset = shared.kernel.command(Command::Reset, shared.zone(zone)).await;
                reset.map_err(|error| {
                    let start = shared.zone(zone).start;
                    shared.failure("resetting a zone of", Some(start)).of_write(&error)
                })?;
                shared.is_inactive(zone);
                shared.lane(zone).restart();
                shared.table.borrow_mut().end_reset(ticket);
                Ok(())
            })
        });
        async move { reset?.await }
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        let root = self.shared.root.borrow().clone();
        async move { Ok(root) }
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let shared = &self.shared;
        let begun = shared.check_writable("writing the root of").and_then(|()| {
            shared.table.borrow().check_root(root.len(), Self::ROOT_BYTES_MAX)?;
            let answer = Rc::<Answer>::default();
            shared.new_roots.borrow_mut().push_back((root, answer.clone()));
            if shared.roots.borrow().is_some() && shared.new_roots.borrow().len() == 1 {
                (shared.spawn)(Box::pin(shared.clone().write_roots()));
            }
            Ok(answer)
        });
        async move { begun?.wait().await }
    }
}

impl<K: Kernel> Abilities for ZonedDevice<K> {
    fn is_root_in_doubt(&self) -> bool {
        self.shared.in_doubt
    }

    /// What a zoned device has taken is in its zones or lost: nothing lies in a page cache.
    fn flushes_again(&self) -> bool {
        true
    }

    fn forgive_failed_flush(&self) {
        if !self.shared.read_only {
            self.shared.kernel.forgive();
        }
    }
}
