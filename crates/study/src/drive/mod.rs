//! A simulated drive as a [`Device`]: NAND in virtual time, and of what is written only what
//! somebody could read back.
//!
//! A zone is a superblock ([`Layout`]). Appends fill its program units in order. What does not fill
//! a unit waits in the controller's memory, which a capacitor keeps: it counts as written, and
//! sealing the zone pads it. Clients' blocks are kept as tags, or, where no oracle looks at them,
//! not at all; others with all their bytes, packed ([`packed`]) unless the drive is small, but for the
//! map's where the engine has memory for all of it and nobody else will look. The root lies beside the zones, and takes one program to replace.
//!
//! Where a program or an erase fails, the controller lets another erase block of the plane stand in
//! ([`stand_ins`]), copies what the failed one held, and goes on; the engine hears
//! of it only when none is left.
//!
//! **Leaves out** power cuts, growing.

mod header;
mod id;
pub(crate) mod layout;
mod packed;
pub(crate) mod payload;
pub(crate) mod saved;
mod stand_ins;

use std::cell::RefCell;
use std::future::Future;
use std::mem::{replace, take};
use std::rc::Rc;

use bytes::Bytes;
use layout::{Layout, Unit};
use mjolnir_device::{
    Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind, Sealing, ZoneTable,
};
use mjolnir_flash::nand::{Nand, NandError};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Instant, Pba, ZoneId};
use mjolnir_vtime::SimRuntime;
use payload::PLAIN_TAG;
use stand_ins::StandIns;

pub use id::DriveId;

/// A drive of at most so many bytes keeps blocks as they are, up to one byte in so many: packing them
/// takes time, and what a larger one keeps would take memory.
const SMALL_BYTES: u64 = 8 << 30;
const AS_THEY_ARE_SHARE: u64 = 64;

/// What the drive did since it was last asked to count anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriveCounts {
    /// Bytes programmed, padding included.
    pub programmed_bytes: u64,
    /// Of those, bytes of padding.
    pub padding_bytes: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Erase blocks erased.
    pub erases: u64,
    /// Bytes that were copied off erase blocks that failed.
    pub rewritten_bytes: u64,
}

/// A handle of a drive; clones are of the same one.
#[derive(Clone)]
pub(crate) struct SimDrive {
    shared: Rc<Shared>,
}

struct Shared {
    id: DriveId,
    runtime: SimRuntime,
    state: RefCell<State>,
}

/// What a zone holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    /// Blocks written.
    pub blocks: u32,
    /// Bytes on NAND; the rest waits for its program unit to fill up.
    pub programmed: u64,
    /// Blocks that are kept whole, by offset, with where each ends in `packed`.
    whole: Vec<(u32, u32)>,
    packed: Vec<u8>,
    /// Bytes of those that are not packed.
    as_they_are: u64,
    about: packed::Zone,
}

/// How a block is kept.
#[derive(Clone, Copy)]
enum Keep {
    AsItIs,
    /// `tagged` says whether an oracle looks: then nobody knows here what the tags are that a header
    /// sums.
    Packed {
        tagged: bool,
    },
}

impl Zone {
    /// With so many blocks written, of which so many bytes are on NAND.
    pub fn new(blocks: u32, programmed: u64) -> Self {
        Zone { blocks, programmed, ..Zone::default() }
    }

    /// The offsets of the blocks that are kept whole.
    pub fn whole(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.whole.iter().map(|(offset, _)| *offset)
    }

    /// Keeps the block at an offset, which lies behind all that are kept.
    fn keep(&mut self, start: u64, offset: u32, block: &[u8], how: Keep) {
        self.about.start = start;
        self.about.note(offset, block);
        match how {
            Keep::AsItIs => {
                packed::copy(block, &mut self.packed);
                self.as_they_are += BLOCK_SIZE;
            }
            Keep::Packed { tagged } => {
                let sums = sums(&self.whole, self.about.in_footer(offset), tagged);
                self.about.pack(offset, block, &mut self.packed, sums);
            }
        }
        self.whole.push((offset, self.packed.len() as u32));
    }

    /// Writes the `index`-th of the blocks that are kept to `block`.
    pub fn kept(&self, index: usize, tagged: bool, block: &mut [u8]) {
        let Some(&(offset, end)) = self.whole.get(index) else { return };
        let begin = index.checked_sub(1).map_or(0, |before| self.whole[before].1);
        let packed = &self.packed[begin as usize..end as usize];
        let sums = sums(&self.whole, self.about.in_footer(offset), tagged);
        self.about.unpack(offset, packed, block, sums);
    }

    /// Whether the engine keeps its map here.
    fn is_of_map(&self) -> bool {
        self.about.stream == Some(packed::MAP_STREAM)
    }

    /// Takes room to grow in, if it has none yet.
    fn open(&mut self, room: &mut Vec<Room>) {
        if self.packed.capacity() == 0 {
            (self.whole, self.packed) = room.pop().unwrap_or_default();
        }
    }

    /// Puts what it keeps where it just fits: shrunk in place, it would leave a gap beside it. What
    /// it grew in is room for the next one.
    fn close(&mut self, room: &mut Vec<Room>) {
        if self.packed.is_empty() {
            return;
        }
        let (whole, packed) = (self.whole.to_vec(), self.packed.to_vec());
        let mut grown = (replace(&mut self.whole, whole), replace(&mut self.packed, packed));
        grown.0.clear();
        grown.1.clear();
        room.push(grown);
    }

    fn memory_bytes(&self) -> u64 {
        let entries = self.whole.capacity() * size_of::<(u32, u32)>();
        (size_of::<Zone>() + entries + self.packed.capacity()) as u64
    }
}

/// Where [`Zone::whole`] and [`Zone::packed`] grow.
type Room = (Vec<(u32, u32)>, Vec<u8>);

/// The sums of the tags in a zone, for packing: asked by rising offset.
fn sums(
    whole: &[(u32, u32)],
    in_footer: bool,
    tagged: bool,
) -> impl FnMut(u64) -> Option<u32> + use<'_> {
    let plain = (!tagged).then(|| payload::checksum_of_tag(PLAIN_TAG));
    let mut next = 0;
    move |offset| {
        // What a group header sums comes after it, and is not known yet when it is packed.
        if in_footer {
            if next == 0 {
                next = whole.partition_point(|(kept, _)| u64::from(*kept) < offset);
            }
            while whole.get(next).is_some_and(|(kept, _)| u64::from(*kept) < offset) {
                next += 1;
            }
            if whole.get(next).is_some_and(|(kept, _)| u64::from(*kept) == offset) {
                return None;
            }
        }
        plain
    }
}

pub(crate) struct State {
    pub table: ZoneTable,
    pub layout: Layout,
    pub nand: Nand,
    pub stand_ins: StandIns,
    pub zones: Vec<Zone>,
    /// Room for what open zones keep.
    room: Vec<Room>,
    /// Bytes that zones keep as they are, and the most.
    as_they_are: u64,
    as_they_are_max: u64,
    /// The tag of each block, where an oracle wants to know; 0 for blocks that are kept whole.
    pub tags: Option<Vec<u64>>,
    pub root: Option<Bytes>,
    pub counts: DriveCounts,
    /// What is written of the map is forgotten: it is in memory, and nobody will read it.
    forgets_map: bool,
    /// When the last page is on NAND that is being programmed.
    written_ns: u64,
    root_ns: u64,
    read_overhead_ns: u64,
    /// The next read returns this in place of a client's tag. For tests of the oracle.
    wrong_tag: bool,
}

impl SimDrive {
    /// An empty drive.
    pub fn new(
        id: DriveId,
        runtime: SimRuntime,
        hardware: &str,
        layout: Layout,
        nand: Nand,
        read_overhead_ns: u64,
        oracle: bool,
    ) -> Self {
        let info = DeviceInfo {
            name: id.name(hardware),
            uuid: id.uuid(),
            zone_blocks: layout.zone_blocks,
            zones: layout.zones,
            append_blocks_max: layout.zone_blocks,
            queue_depth: nand.geometry().dies() as usize,
            open_zones_max: None,
            sealing: Sealing::Free,
        };
        let blocks = info.blocks() as usize;
        let bytes = info.blocks() * BLOCK_SIZE;
        let as_they_are_max = if bytes <= SMALL_BYTES { bytes / AS_THEY_ARE_SHARE } else { 0 };
        let root_ns = nand.timing().program_ns.first().copied().unwrap_or(0);
        SimDrive {
            shared: Rc::new(Shared {
                id,
                runtime,
                state: RefCell::new(State {
                    table: ZoneTable::new(info),
                    zones: vec![Zone::default(); layout.zones as usize],
                    room: Vec::new(),
                    as_they_are: 0,
                    as_they_are_max,
                    stand_ins: layout.stand_ins(),
                    layout,
                    nand,
                    tags: oracle.then(|| vec![0; blocks]),
                    root: None,
                    counts: DriveCounts::default(),
                    forgets_map: false,
                    written_ns: 0,
                    root_ns,
                    read_overhead_ns,
                    wrong_tag: false,
                }),
            }),
        }
    }

    /// Has it be the device of that uuid, as the state is of that was brought back to it.
    pub fn become_device(&self, uuid: [u8; 16]) {
        let mut state = self.state();
        let info = DeviceInfo { uuid, ..state.table.info().clone() };
        state.table = ZoneTable::new(info);
    }

    /// Everything about it.
    pub fn state(&self) -> std::cell::RefMut<'_, State> {
        self.shared.state.borrow_mut()
    }

    /// From now on blocks of the map that are written cannot be read back. For engines that keep
    /// the whole map in memory, on drives whose state nobody saves.
    pub fn forget_map(&self) {
        self.state().forgets_map = true;
    }

    /// The next read of a client's block returns another one. For tests of the oracle.
    #[cfg(test)]
    pub fn plant_wrong_tag(&self) {
        self.state().wrong_tag = true;
    }

    /// Puts what was asked into the run's trace, where one is kept.
    fn note(&self, what: &'static str, at: u64, count: u64) {
        self.shared.runtime.trace(what, [self.shared.id.0.into(), at, count]);
    }

    /// The present, if operations take time.
    fn at(&self) -> Option<u64> {
        let runtime = &self.shared.runtime;
        runtime.is_timed().then(|| runtime.now_ns())
    }

    /// Completes with `outcome` at `done_ns`; at once if operations take no time.
    fn complete<T: 'static>(
        &self,
        done_ns: u64,
        outcome: Result<T, DeviceError>,
    ) -> impl Future<Output = Result<T, DeviceError>> + 'static {
        let wait = self.shared.runtime.is_timed() && done_ns > self.shared.runtime.now_ns();
        let sleep = wait.then(|| self.shared.runtime.sleep_until(Instant(done_ns)));
        async move {
            if let Some(sleep) = sleep {
                sleep.await;
            }
            outcome
        }
    }
}

fn worn_out(nand: &Nand) -> DeviceError {
    let why = format!(
        "the simulated drive is worn out: {} erase blocks failed, and a plane has none left to stand \
         in; give it more (drive.spare_blocks), or fewer failures (device.faults)",
        nand.retired_blocks()
    );
    DeviceError::new(ErrorKind::Io, why)
}

fn broken(error: NandError) -> DeviceError {
    DeviceError::new(ErrorKind::Io, format!("the simulated NAND refuses: {error}"))
}

impl State {
    /// Keeps the block at an offset of a zone, which lies behind all that are kept there. `tagged`
    /// says whether an oracle looks at the drive.
    pub fn keep(&mut self, zone: u32, offset: u32, block: &[u8], tagged: bool) {
        let how = if self.as_they_are < self.as_they_are_max {
            self.as_they_are += BLOCK_SIZE;
            Keep::AsItIs
        } else {
            Keep::Packed { tagged }
        };
        let start = u64::from(zone) * self.layout.zone_blocks;
        self.zones[zone as usize].keep(start, offset, block, how);
    }

    fn append(&mut self, at: Pba, data: &[Bytes], now: Option<u64>) -> Result<u64, DeviceError> {
        let blocks = self.table.claim(at, data)?;
        let zone = at.zone(self.layout.zone_blocks).0;
        let first = at.offset(self.layout.zone_blocks) as u32;
        let tags_from = u64::from(zone) * self.layout.zone_blocks;
        let state = &mut self.zones[zone as usize];
        state.open(&mut self.room);
        let appended = data.iter().flat_map(|piece| piece.chunks_exact(BLOCK_BYTES));
        // The first block of a segment says whether it is the map's.
        let forgets = self.forgets_map && first > 0 && state.is_of_map();
        for (offset, block) in (first..).zip(appended).take_while(|_| !forgets) {
            let tag = payload::tag_of(block);
            if tag.is_none() {
                self.keep(zone, offset, block, self.tags.is_some());
            }
            if let Some(tags) = &mut self.tags {
                tags[(tags_from + u64::from(offset)) as usize] = tag.unwrap_or(0);
            }
        }
        let state = &mut self.zones[zone as usize];
        state.blocks += blocks as u32;
        let filled = u64::from(state.blocks) * BLOCK_SIZE;
        self.program(zone, filled / self.layout.unit_bytes * self.layout.unit_bytes, now)
    }

    /// Programs a zone's units up to a byte; answers when the last one is done.
    fn program(&mut self, zone: u32, to: u64, now: Option<u64>) -> Result<u64, DeviceError> {
        if let Some(now) = now {
            self.nand.advance(now);
        }
        let (index, unit_bytes) = (zone as usize, self.layout.unit_bytes);
        let mut done_ns = 0;
        while self.zones[index].programmed < to {
            let number = (self.zones[index].programmed / unit_bytes) as u32;
            let unit = self.layout.unit(zone, number);
            let (block, pages) = (self.stand_ins.serving(unit.block), self.layout.unit_pages);
            let programmed =
                self.nand.program(block, unit.page, pages, None, now).map_err(broken)?;
            done_ns = done_ns.max(programmed.done_ns);
            self.counts.programmed_bytes += unit_bytes;
            if programmed.failed {
                done_ns = done_ns.max(self.replace(unit, now)?);
                continue; // Once more, on the one that stands in.
            }
            self.zones[index].programmed += unit_bytes;
        }
        self.written_ns = self.written_ns.max(done_ns);
        Ok(done_ns)
    }

    /// The program of a unit failed: takes another erase block in place of its own and copies what
    /// that one held before, page register to page register. Answers when it is done.
    fn replace(&mut self, failed: Unit, now: Option<u64>) -> Result<u64, DeviceError> {
        let from = self.stand_ins.serving(failed.block);
        loop {
            let to = self.stand_ins.replace(failed.block).ok_or_else(|| worn_out(&self.nand))?;
            let copied = self.copy(from, to, failed.page, now).map_err(broken)?;
            if let Some(done_ns) = copied {
                self.nand.retire(from);
                return Ok(done_ns);
            }
            self.nand.retire(to);
        }
    }

    /// Copies the first `pages` pages of an erase block to another of its plane; none if a program
    /// fails there.
    fn copy(
        &mut self,
        from: u32,
        to: u32,
        pages: u32,
        now: Option<u64>,
    ) -> Result<Option<u64>, NandError> {
        let mut done_ns = 0;
        for unit in (0..pages).step_by(self.layout.unit_pages as usize) {
            let pages = self.layout.unit_pages;
            for page in unit..unit + pages {
                self.nand.sense(from, page, now)?;
                self.counts.pages_read += 1;
            }
            let programmed = self.nand.program(to, unit, pages, Some(0), now)?;
            self.counts.programmed_bytes += self.layout.unit_bytes;
            self.counts.rewritten_bytes += self.layout.unit_bytes;
            done_ns = done_ns.max(programmed.done_ns);
            if programmed.failed {
                return Ok(None);
            }
        }
        Ok(Some(done_ns))
    }

    fn read(&mut self, from: Pba, buffer: &mut [u8], now: Option<u64>) -> Result<u64, DeviceError> {
        let blocks = self.table.check_read(from, buffer.len())?;
        let zone = from.zone(self.layout.zone_blocks).0;
        let first = from.offset(self.layout.zone_blocks);
        let state = &self.zones[zone as usize];
        let mut whole = state.whole.partition_point(|(offset, _)| u64::from(*offset) < first);
        for (block, offset) in buffer.chunks_exact_mut(BLOCK_BYTES).zip(first..) {
            if state.whole.get(whole).is_some_and(|(kept, _)| u64::from(*kept) == offset) {
                state.kept(whole, self.tags.is_some(), block);
                whole += 1;
            } else if self.forgets_map && state.is_of_map() {
                let why = "the simulated drive was told that the engine would not read its map";
                return Err(DeviceError::new(ErrorKind::Io, why));
            } else if offset < u64::from(state.blocks) {
                let at = u64::from(zone) * self.layout.zone_blocks + offset;
                let mut tag = self.tags.as_ref().map_or(PLAIN_TAG, |tags| tags[at as usize]);
                if take(&mut self.wrong_tag) {
                    // As a drive does that mixes two blocks up: the sum is right, the block wrong.
                    tag = tag.wrapping_add(1);
                }
                payload::put_tag(block, tag);
            } else {
                block.fill(0);
            }
        }
        let (begin, end) = (first * BLOCK_SIZE, (first + blocks) * BLOCK_SIZE);
        let end = end.min(state.programmed);
        if let Some(now) = now {
            self.nand.advance(now);
        }
        let page_bytes = self.layout.page_bytes;
        let mut page = begin / page_bytes;
        let mut done_ns = 0;
        while page * page_bytes < end {
            let unit = page / u64::from(self.layout.unit_pages);
            let place = self.layout.unit(zone, unit as u32);
            let block = self.stand_ins.serving(place.block);
            if self.nand.is_retired(block) {
                // What lay there was copied, and is read from where it went.
                let why =
                    format!("the simulated controller reads erase block {block}, which failed");
                return Err(DeviceError::new(ErrorKind::Io, why));
            }
            let within = (page % u64::from(self.layout.unit_pages)) as u32;
            let read = self.nand.read(block, place.page + within, now).map_err(broken)?;
            done_ns = done_ns.max(read + self.read_overhead_ns);
            self.counts.pages_read += 1;
            page += 1;
        }
        Ok(done_ns)
    }

    /// Pads the last program unit of a zone.
    fn seal(&mut self, zone: ZoneId, now: Option<u64>) -> Result<u64, DeviceError> {
        self.table.seal(zone)?;
        let filled = u64::from(self.zones[zone.0 as usize].blocks) * BLOCK_SIZE;
        let padded = filled.next_multiple_of(self.layout.unit_bytes);
        self.zones[zone.0 as usize].close(&mut self.room);
        if padded > self.zones[zone.0 as usize].programmed {
            self.counts.padding_bytes += padded - filled;
        }
        self.program(zone.0, padded, now)
    }

    fn reset(&mut self, zone: ZoneId, now: Option<u64>) -> Result<(), DeviceError> {
        let ticket = self.table.begin_reset(zone)?;
        if let Some(now) = now {
            self.nand.advance(now);
        }
        for place in self.layout.blocks(zone.0) {
            let block = self.stand_ins.serving(place);
            if self.nand.next_page(block) == Some(0) {
                continue;
            }
            let serves = self.nand.erase(block, now).map_err(broken)?;
            self.counts.erases += 1;
            if !serves && self.stand_ins.replace(place).is_none() {
                return Err(worn_out(&self.nand));
            }
        }
        let before = take(&mut self.zones[zone.0 as usize]);
        self.as_they_are -= before.as_they_are;
        self.table.end_reset(ticket);
        Ok(())
    }

    /// Bytes of memory that the simulation of the drive takes.
    pub fn memory_bytes(&self) -> u64 {
        let blocks = u64::from(self.nand.geometry().blocks());
        let zones: u64 = self.zones.iter().map(Zone::memory_bytes).sum();
        let tags = self.tags.as_ref().map_or(0, |tags| 8 * tags.len() as u64);
        let entry = size_of::<(u32, u32)>();
        let room =
            self.room.iter().map(|(whole, packed)| entry * whole.capacity() + packed.capacity());
        8 * blocks + zones + tags + room.sum::<usize>() as u64
    }
}

impl Device for SimDrive {
    fn info(&self) -> DeviceInfo {
        self.state().table.info().clone()
    }

    fn abilities(&self) -> &dyn Abilities {
        self
    }

    fn append(
        &self,
        at: Pba,
        data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        self.note("append", at.0, data.iter().map(Bytes::len).sum::<usize>() as u64);
        let done = self.state().append(at, &data, self.at());
        self.complete(*done.as_ref().unwrap_or(&0), done.map(|_| at))
    }

    fn read(
        &self,
        from: Pba,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        self.note("read", from.0, buffer.len() as u64);
        let done = self.state().read(from, buffer.as_mut(), self.at());
        self.complete(*done.as_ref().unwrap_or(&0), done.map(|_| buffer))
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note("flush", 0, 0);
        let written_ns = self.state().written_ns;
        self.complete(written_ns, Ok(()))
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note("seal", zone.0.into(), 0);
        let done = self.state().seal(zone, self.at());
        self.complete(*done.as_ref().unwrap_or(&0), done.map(drop))
    }

    /// Completes at once: the erases are queued at their dies, and whatever comes next waits there.
    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note("reset", zone.0.into(), 0);
        let done = self.state().reset(zone, self.at());
        self.complete(0, done)
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        let root = self.state().root.clone();
        self.complete(0, Ok(root))
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.note("write root", 0, root.len() as u64);
        let mut state = self.state();
        let checked = state.table.check_root(root.len(), Self::ROOT_BYTES_MAX);
        if checked.is_ok() {
            state.root = Some(root);
        }
        let done_ns = self.at().unwrap_or(0) + state.root_ns;
        drop(state);
        self.complete(done_ns, checked)
    }

    fn grow(&self, _bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        let name = self.state().table.info().name.clone();
        let refusal = format!("{name} cannot grow: its NAND is what it is");
        std::future::ready(Err(DeviceError::new(ErrorKind::Invalid, refusal)))
    }
}

impl Abilities for SimDrive {
    fn block_checksum(&self) -> fn(&[u8]) -> u32 {
        payload::checksum
    }

    /// Of the erase block of the zone that was erased most: they differ where one stands in for
    /// another.
    fn erases(&self, zone: ZoneId) -> Option<u32> {
        let state = self.state();
        let places = state.layout.blocks(zone.0);
        places.map(|place| state.nand.erases(state.stand_ins.serving(place))).max()
    }
}
