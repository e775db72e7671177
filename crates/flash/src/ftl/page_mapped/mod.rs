//! The plain page-mapped FTL of DiskSim's SSD extension, and of most drives since.
//!
//! * Logical pages are striped over the dies ([`FtlSpec::stripe_pages`](super::FtlSpec)). A die is
//!   an allocation pool: a write goes to the plane of its die that has most free pages.
//! * Each plane has an append point for each stream of the placement policy. The plain one,
//!   `together`, has one stream: host writes and moved data share it.
//! * Before a die serves a request, each of its planes whose free erase blocks fell to the low
//!   watermark is cleaned until they are above it: the victim's live pages move to the plane's
//!   append point, then it is erased. The request waits for that.
//!
//! **Invariants**: `map` and `owner` agree for every live page; an erase block's live count is the
//! number of its live bits; a victim is sealed and wholly programmed; each call ends (reclaim makes
//! progress with every victim or stops).

mod oracle;
mod precondition;
mod reclaim;
mod report;
mod state;
mod streams;
mod victims;

use std::collections::VecDeque;

use crate::device::Device;
use crate::nand::{Nand, NandError};
use mjolnir_policy::placement::{PlacementPolicy, Source};
use mjolnir_policy::victim::VictimPolicy;
use oracle::Oracle;
pub use precondition::{Overwrites, Precondition, PreconditionReport};
pub use report::{Counts, Reclaim, Report, Wear, WhyNoReclaim};
pub use state::RestoreError;
use streams::Streams;
use victims::Victims;

/// No page, or no erase block.
const NONE: u32 = u32::MAX;

/// Why an FTL cannot do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FtlError {
    /// The page is beyond the drive's end.
    #[error("logical page {page} is beyond the end of the drive, which has {pages} pages")]
    BeyondEnd {
        /// The page.
        page: u64,
        /// How many there are.
        pages: u64,
    },
    /// So many erase blocks are retired that live data and the write do not fit any more.
    #[error(
        "die {die} has no free page left: {retired_blocks} erase blocks of the drive are retired; \
         it is worn out, and only reads and trims are served"
    )]
    WornOut {
        /// The die.
        die: u32,
        /// Retired erase blocks of the whole drive.
        retired_blocks: u32,
    },
    /// The read-back oracle found other data than was written: a fault of this program.
    #[error("read of logical page {page} gave the data of write {found}, not of write {expected}")]
    ReadBack {
        /// The page.
        page: u64,
        /// The write whose data should be there; 0 for none.
        expected: u64,
        /// The write whose data is there; 0 for none.
        found: u64,
    },
    /// The FTL broke a rule of the medium: a fault of this program.
    #[error(transparent)]
    Nand(#[from] NandError),
}

/// Where a page was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nothing is written there: the controller answers zeroes.
    Unmapped,
    /// It is still in the controller's memory.
    Buffered,
    /// From NAND, all of it across the bus at this time in nanoseconds.
    Nand(u64),
}

/// Why a page is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Host,
    Reclaim,
    Wear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Free,
    Open,
    Sealed,
    Retired,
}

/// One plane.
#[derive(Clone, Debug)]
struct Plane {
    /// Erased blocks; those erased longest ago are used first, which spreads wear.
    free: VecDeque<u32>,
    /// Programs under way whose data is still in the controller's memory: pages and end.
    under_way: VecDeque<(u32, u32, u64)>,
}

/// Where pages of a stream are appended in a plane.
#[derive(Clone, Debug)]
struct Point {
    open: u32,
    /// Pages of the open block that are given out, and that are programmed.
    filled: u32,
    programmed: u32,
    /// Host pages among those that are given out and not programmed.
    waiting_host_pages: u32,
    /// When the last of these is in the controller's memory.
    waiting_from_ns: u64,
    youngest: u64,
}

impl Point {
    const NEW: Point = Point {
        open: NONE,
        filled: 0,
        programmed: 0,
        waiting_host_pages: 0,
        waiting_from_ns: 0,
        youngest: 0,
    };

    /// Whether anything waits for its program unit to fill up.
    fn waits(&self) -> bool {
        self.open != NONE && self.filled != self.programmed
    }
}

/// A page-mapped FTL on its NAND.
///
/// Operations take the time at which they may begin, or `None` to take no time.
pub struct PageMapped {
    nand: Nand,
    stripe_pages: u64,
    data_pages: u32,
    pages_per_block: u32,
    pages_per_program: u32,
    planes_per_die: u32,
    low_watermark: u32,
    copy_back: bool,
    summary: Option<u32>,
    wear_gap_max: Option<u32>,
    buffered: bool,
    map: Vec<u32>,
    owner: Vec<u32>,
    live: Vec<u64>,
    live_pages: Vec<u16>,
    states: Vec<State>,
    planes: Vec<Plane>,
    /// Of the first plane's streams, of the second one's, ...
    points: Vec<Point>,
    streams: Streams,
    /// The plane of each die at which the search for the freest one begins.
    next_plane: Vec<u32>,
    /// Dies of which a block was taken since they were last looked at.
    look: Vec<bool>,
    victims: Victims,
    counts: Counts,
    nothing_stale: bool,
    sequence: u64,
    mapped: u64,
    /// Ends of programs that freed buffered host pages, since last asked.
    released: Vec<(u64, u32)>,
    oracle: Option<Oracle>,
}

impl PageMapped {
    /// A new, empty drive. `seed` decides which of its operations fail, if any do, and what a victim
    /// policy draws that draws lots. The device must have passed its check.
    pub fn new(device: &Device, seed: u64) -> Self {
        let geometry = device.nand.clone();
        let (blocks, planes) = (geometry.blocks(), geometry.planes());
        let data_pages = device.data_pages_per_block();
        // What the one draws must not be what the other does.
        let policy = mjolnir_policy::victim::seeded(&device.ftl.victim, !seed)
            .expect("a device that was checked names a victim policy");
        let pages = geometry.pages() as usize;
        let plane = |plane: u32| Plane {
            free: (plane * geometry.blocks_per_plane..(plane + 1) * geometry.blocks_per_plane)
                .collect(),
            under_way: VecDeque::new(),
        };
        let placement = mjolnir_policy::placement::by_name_for(
            &device.ftl.placement,
            &device.placement_shape(),
        )
        .expect("a device that was checked names a placement policy");
        let streams = Streams::new(placement, blocks, device.logical_pages() as usize);
        PageMapped {
            stripe_pages: device.ftl.stripe_pages.into(),
            data_pages,
            pages_per_block: geometry.pages_per_block,
            pages_per_program: geometry.pages_per_program,
            planes_per_die: geometry.planes_per_die,
            low_watermark: device.low_watermark_blocks(),
            copy_back: device.ftl.copy_back,
            summary: device.ftl.summary_page.then_some(device.ftl.summary_bytes),
            wear_gap_max: device.ftl.wear_gap_max,
            buffered: device.controller.write_buffer_bytes >= u64::from(geometry.page_bytes),
            map: vec![NONE; device.logical_pages() as usize],
            owner: vec![NONE; pages],
            live: vec![0; pages.div_ceil(64)],
            live_pages: vec![0; blocks as usize],
            states: vec![State::Free; blocks as usize],
            planes: (0..planes).map(plane).collect(),
            points: vec![Point::NEW; (planes * streams.count) as usize],
            streams,
            next_plane: vec![0; geometry.dies() as usize],
            look: vec![true; geometry.dies() as usize],
            victims: Victims::new(policy, blocks, planes, data_pages),
            counts: Counts::default(),
            nothing_stale: false,
            sequence: 0,
            mapped: 0,
            released: Vec::new(),
            oracle: None,
            nand: Nand::new(geometry, device.timing.clone(), device.faults.clone(), seed),
        }
    }

    /// The same with a victim policy of one's own, in place of the one that the device names.
    pub fn with_victim_policy(device: &Device, seed: u64, policy: Box<dyn VictimPolicy>) -> Self {
        let geometry = &device.nand;
        let (blocks, planes) = (geometry.blocks(), geometry.planes());
        let victims = Victims::new(policy, blocks, planes, device.data_pages_per_block());
        PageMapped { victims, ..PageMapped::new(device, seed) }
    }

    /// The same with a placement policy of one's own, in place of the one that the device names.
    /// It may have as many streams as the drive's spare space leaves room for (see
    /// [`Device::streams_max`]).
    pub fn with_placement_policy(
        device: &Device,
        seed: u64,
        policy: Box<dyn PlacementPolicy>,
    ) -> Self {
        let drive = PageMapped::new(device, seed);
        let streams = Streams::new(policy, device.nand.blocks(), drive.map.len());
        assert!(streams.count <= device.streams_max(), "the policy has too many streams");
        let points = vec![Point::NEW; drive.planes.len() * streams.count as usize];
        PageMapped { streams, points, ..drive }
    }

    /// Keeps with each page which write it came from, and checks that at every read. Costs eight
    /// bytes a page and must be asked for while the drive is empty.
    pub fn with_oracle(mut self) -> Self {
        assert_eq!(self.sequence, 0, "the oracle must see every write");
        self.oracle = Some(Oracle::new(self.owner.len(), self.map.len()));
        self
    }

    /// Logical pages of the drive.
    pub fn logical_pages(&self) -> u64 {
        self.map.len() as u64
    }

    /// The NAND below.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The NAND below, to advance its time or to record what is busy when.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// What was done since the last reset, by cause.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Begins to count anew.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
        self.nothing_stale = false;
    }

    /// Takes the ends of programs that freed buffered pages of the host, with how many.
    pub fn take_released(&mut self, mut each: impl FnMut(u64, u32)) {
        for (done_ns, pages) in self.released.drain(..) {
            each(done_ns, pages);
        }
    }

    fn die_of(&self, page: u64) -> u32 {
        (page / self.stripe_pages % self.next_plane.len() as u64) as u32
    }

    fn check(&self, page: u64) -> Result<(), FtlError> {
        let pages = self.logical_pages();
        if page >= pages { Err(FtlError::BeyondEnd { page, pages }) } else { Ok(()) }
    }

    /// Reads a logical page.
    pub fn read(&mut self, page: u64, at: Option<u64>) -> Result<Read, FtlError> {
        self.check(page)?;
        let physical = self.map[page as usize];
        if let Some(oracle) = &self.oracle {
            oracle.check(page, physical)?;
        }
        if physical == NONE {
            return Ok(Read::Unmapped);
        }
        if at.is_some() {
            self.make_room(self.die_of(page), at)?;
        }
        // Only now: cleaning may have moved the page.
        let physical = self.map[page as usize];
        let (block, index) = self.split(physical);
        let plane = self.nand.geometry().plane_of(block);
        let point = &self.points[self.point_of(plane, self.streams.stream_of(block))];
        if point.open == block && index >= point.programmed {
            return Ok(Read::Buffered);
        }
        let under_way = &self.planes[plane as usize].under_way;
        let is_there = |&(first, past, end): &(u32, u32, u64)| {
            at.is_some_and(|at| at < end) && (first..past).contains(&physical)
        };
        if under_way.iter().any(is_there) {
            return Ok(Read::Buffered);
        }
        self.counts.host_reads += 1;
        Ok(Read::Nand(self.nand.read(block, index, at)?))
    }

    /// Writes a logical page. Answers when it is programmed; with [`pages_per_program`] above one
    /// that may be unknown yet, and is then 0 (see [`take_released`](Self::take_released)).
    ///
    /// [`pages_per_program`]: crate::nand::Geometry::pages_per_program
    pub fn write(&mut self, page: u64, at: Option<u64>) -> Result<u64, FtlError> {
        self.check(page)?;
        let die = self.die_of(page);
        self.make_room(die, at)?;
        let plane = self.freest_plane(die)?;
        self.sequence += 1;
        if let Some(oracle) = &mut self.oracle {
            oracle.wrote(page, self.sequence);
        }
        self.append(plane, page as u32, Cause::Host, None, at)
    }

    /// Reads the old data of a page of which only a part is written anew, which moves the time
    /// from which the write may begin.
    pub fn merge(&mut self, page: u64, at: Option<u64>) -> Result<Option<u64>, FtlError> {
        let before = self.counts.host_reads;
        let read = self.read(page, at)?;
        self.counts.merge_reads += self.counts.host_reads - before;
        self.counts.host_reads = before;
        Ok(match read {
            Read::Nand(done_ns) => at.map(|_| done_ns),
            Read::Unmapped | Read::Buffered => at,
        })
    }

    /// Forgets a logical page.
    pub fn trim(&mut self, page: u64) -> Result<(), FtlError> {
        self.check(page)?;
        let physical = std::mem::replace(&mut self.map[page as usize], NONE);
        if physical != NONE {
            self.kill(physical);
            self.mapped -= 1;
            self.counts.trimmed_pages += 1;
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.trimmed(page);
        }
        Ok(())
    }

    /// Programs everything that waits for a program unit to fill up, padding it. Answers when the
    /// last of it is done, or 0 if nothing waited.
    pub fn flush(&mut self, at: Option<u64>) -> Result<u64, FtlError> {
        let mut done_ns = 0;
        for plane in 0..self.planes.len() as u32 {
            let mut points = self.point_of(plane, 0)..self.point_of(plane + 1, 0);
            // A program that fails sends what the block held to any of the plane's append points, to
            // those that nothing waited at before, too.
            while let Some(point) = points.find(|&point| self.points[point].waits()) {
                let unit = self.pages_per_program;
                let state = &mut self.points[point];
                let padded = state.filled.next_multiple_of(unit).min(self.data_pages);
                self.counts.padding_pages += u64::from(padded - state.filled);
                state.filled = padded;
                done_ns = done_ns.max(self.program_unit(point, None, at)?);
                points.start = self.point_of(plane, 0);
            }
        }
        Ok(done_ns)
    }

    /// Whether a mapped page is on the medium exactly once, and every count is right. For tests:
    /// it visits everything. Answers what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        let mut live = vec![0u32; self.live_pages.len()];
        for (page, &physical) in self.map.iter().enumerate() {
            if physical == NONE {
                continue;
            }
            if self.owner[physical as usize] as usize != page || !self.is_live(physical) {
                return Err(format!("page {page} is at {physical}, which does not know of it"));
            }
            live[(physical / self.pages_per_block) as usize] += 1;
        }
        let bits: u32 = self.live.iter().map(|word| word.count_ones()).sum();
        let mapped: u32 = live.iter().sum();
        if bits != mapped || u64::from(mapped) != self.mapped {
            return Err(format!("{mapped} pages mapped, {bits} live, {} counted", self.mapped));
        }
        for (block, &count) in live.iter().enumerate() {
            let counted = u32::from(self.live_pages[block]);
            let state = self.states[block];
            if counted != count {
                return Err(format!("erase block {block} has {count} live pages, not {counted}"));
            }
            if matches!(state, State::Free | State::Retired) && count > 0 {
                return Err(format!("erase block {block} is {state:?} with {count} live pages"));
            }
        }
        for (number, plane) in self.planes.iter().enumerate() {
            if plane.free.iter().any(|&block| self.states[block as usize] != State::Free) {
                return Err(format!("plane {number} lists a block as free that is not"));
            }
        }
        for (number, point) in self.points.iter().enumerate() {
            let stream = number as u32 % self.streams.count;
            if point.open != NONE && self.streams.stream_of(point.open) != stream {
                return Err(format!("stream {stream} appends to an erase block of another one"));
            }
        }
        match &self.oracle {
            Some(oracle) => oracle.check_all(&self.map).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// What was done, how worn the drive is, and whether reclaim ran.
    pub fn report(&self) -> Report {
        let erases = self.nand.wear().iter().zip(&self.states);
        let erases: Vec<u32> = erases
            .filter(|(_, state)| **state != State::Retired)
            .map(|(erases, _)| *erases)
            .collect();
        let count = erases.len().max(1) as f64;
        let mean = erases.iter().map(|&n| f64::from(n)).sum::<f64>() / count;
        let square = |&n: &u32| (f64::from(n) - mean) * (f64::from(n) - mean);
        let wear = Wear {
            min: erases.iter().copied().min().unwrap_or(0),
            max: erases.iter().copied().max().unwrap_or(0),
            mean,
            deviation: (erases.iter().map(square).sum::<f64>() / count).sqrt(),
            retired_blocks: self.nand.retired_blocks(),
        };
        let reclaim = if self.counts.victims > 0 {
            Reclaim::Ran { victims: self.counts.victims, pages_moved: self.counts.reclaim_pages }
        } else if self.counts.host_pages == 0 {
            Reclaim::DidNotRun(WhyNoReclaim::NothingWritten)
        } else if self.nothing_stale {
            Reclaim::DidNotRun(WhyNoReclaim::NothingStale)
        } else {
            let free = self.planes.iter().map(|plane| plane.free.len() as u32).min();
            Reclaim::DidNotRun(WhyNoReclaim::SpaceLeft {
                free_blocks_min: free.unwrap_or(0),
                low_watermark_blocks: self.low_watermark,
            })
        };
        Report {
            counts: self.counts.clone(),
            reclaim,
            wear,
            mapped_pages: self.mapped,
            memory_bytes: self.memory_bytes(),
        }
    }

    /// The share of pages that is live, of each erase block that is written full.
    pub fn utilizations(&self) -> impl Iterator<Item = f64> + '_ {
        let blocks = self.states.iter().zip(&self.live_pages);
        let sealed = blocks.filter(|(state, _)| **state == State::Sealed);
        sealed.map(|(_, &live)| f64::from(live) / f64::from(self.data_pages))
    }

    fn memory_bytes(&self) -> u64 {
        let blocks = self.states.len() as u64;
        let pages = 4 * (self.map.len() + self.owner.len()) as u64 + 8 * self.live.len() as u64;
        let index = match &self.victims {
            Victims::Greedy(_) => 8 * blocks + 8 * self.planes.len() as u64 * 65,
            Victims::Policy(_) => 60 * blocks,
        };
        let oracle = self.oracle.as_ref().map_or(0, |_| pages * 2);
        let programs = self.planes.iter().map(|plane| plane.under_way.capacity()).sum::<usize>();
        16 * programs as u64
            + pages
            + blocks * (2 + 1 + 4 + 8)
            + index
            + oracle
            + self.streams.memory_bytes()
    }

    fn split(&self, physical: u32) -> (u32, u32) {
        (physical / self.pages_per_block, physical % self.pages_per_block)
    }

    fn is_live(&self, physical: u32) -> bool {
        self.live[physical as usize / 64] >> (physical % 64) & 1 == 1
    }

    /// A physical page is stale from now on.
    fn kill(&mut self, physical: u32) {
        self.live[physical as usize / 64] &= !(1 << (physical % 64));
        let block = physical / self.pages_per_block;
        let live = &mut self.live_pages[block as usize];
        *live -= 1;
        if self.states[block as usize] == State::Sealed {
            self.victims.died(block, u32::from(*live));
        }
    }

    fn free_pages(&self, plane: u32) -> u32 {
        let first = self.point_of(plane, 0);
        let points = &self.points[first..first + self.streams.count as usize];
        let left =
            |point: &Point| if point.open == NONE { 0 } else { self.data_pages - point.filled };
        let open: u32 = points.iter().map(left).sum();
        self.planes[plane as usize].free.len() as u32 * self.data_pages + open
    }

    fn point_of(&self, plane: u32, stream: u32) -> usize {
        (plane * self.streams.count + stream) as usize
    }

    /// The append point of a plane for a stream: another stream's, the one with most room, if
    /// nothing is free to open for it.
    fn point_with_room(&self, plane: u32, stream: u32) -> usize {
        let point = self.point_of(plane, stream);
        if self.points[point].open != NONE || !self.planes[plane as usize].free.is_empty() {
            return point;
        }
        let open = (0..self.streams.count).map(|stream| self.point_of(plane, stream));
        let open = open.filter(|&point| self.points[point].open != NONE);
        open.min_by_key(|&point| self.points[point].filled).unwrap_or(point)
    }

    /// Appends a logical page in a plane, where the placement policy says.
    fn append(
        &mut self,
        plane: u32,
        page: u32,
        cause: Cause,
        bytes: Option<u32>,
        at: Option<u64>,
    ) -> Result<u64, FtlError> {
        let source = match cause {
            Cause::Host => Source::Client,
            Cause::Reclaim | Cause::Wear => Source::Reclaim,
        };
        let point = match self.streams.fixed(source) {
            Some(stream) => self.point_with_room(plane, stream),
            None => {
                let old = self.map[page as usize];
                let block = (old != NONE).then(|| old / self.pages_per_block);
                let view = self.streams.view(source, page, block, self.sequence);
                let point = self.point_with_room(plane, self.streams.place(&view));
                self.streams.wrote(&view, point as u32 % self.streams.count);
                point
            }
        };
        if cause == Cause::Host {
            self.streams.born(page, self.sequence);
        }
        self.place(point, page, cause, bytes, at)
    }

    /// The plane of a die with most free pages, the search beginning after the one chosen last.
    fn freest_plane(&mut self, die: u32) -> Result<u32, FtlError> {
        let first = die * self.planes_per_die;
        let (mut best, mut most) = (0, 0);
        for step in 0..self.planes_per_die {
            let mut index = self.next_plane[die as usize] + step;
            if index >= self.planes_per_die {
                index -= self.planes_per_die;
            }
            let free = self.free_pages(first + index);
            if free > most {
                (best, most) = (index, free);
            }
        }
        if most == 0 {
            return Err(FtlError::WornOut { die, retired_blocks: self.nand.retired_blocks() });
        }
        let next = best + 1;
        self.next_plane[die as usize] = if next == self.planes_per_die { 0 } else { next };
        Ok(first + best)
    }

    /// Gives a logical page the next physical one of an append point, and programs the unit that it
    /// completes. `bytes` is what crosses the bus for it: `None` for all.
    fn place(
        &mut self,
        point: usize,
        page: u32,
        cause: Cause,
        bytes: Option<u32>,
        at: Option<u64>,
    ) -> Result<u64, FtlError> {
        if self.points[point].open == NONE {
            self.open_block(point)?;
        }
        let state = &mut self.points[point];
        let block = state.open;
        let physical = block * self.pages_per_block + state.filled;
        state.filled += 1;
        let completes = state.filled - state.programmed == self.pages_per_program
            || state.filled == self.data_pages;
        match cause {
            Cause::Host => {
                state.youngest = self.sequence;
                state.waiting_host_pages += 1;
                self.counts.host_pages += 1;
            }
            Cause::Reclaim => self.counts.reclaim_pages += 1,
            Cause::Wear => self.counts.wear_pages += 1,
        }
        if let Some(at) = at {
            state.waiting_from_ns = state.waiting_from_ns.max(at);
        }
        let old = std::mem::replace(&mut self.map[page as usize], physical);
        if let Some(oracle) = &mut self.oracle {
            oracle.placed(page, physical, (cause != Cause::Host).then_some(old));
        }
        self.owner[physical as usize] = page;
        self.live[physical as usize / 64] |= 1 << (physical % 64);
        self.live_pages[block as usize] += 1;
        match old {
            NONE => self.mapped += 1,
            old => self.kill(old),
        }
        if completes { self.program_unit(point, bytes, at) } else { Ok(0) }
    }

    fn open_block(&mut self, point: usize) -> Result<(), FtlError> {
        let plane = point as u32 / self.streams.count;
        let die = plane / self.planes_per_die;
        let Some(block) = self.planes[plane as usize].free.pop_front() else {
            return Err(FtlError::WornOut { die, retired_blocks: self.nand.retired_blocks() });
        };
        let state = &mut self.points[point];
        (state.open, state.filled, state.programmed, state.youngest) = (block, 0, 0, 0);
        self.states[block as usize] = State::Open;
        self.streams.opened(block, point as u32 % self.streams.count, self.sequence);
        self.look[die as usize] = true;
        Ok(())
    }

    /// Programs what is given out of a point's open block, and seals the block if it is full.
    fn program_unit(
        &mut self,
        point: usize,
        bytes: Option<u32>,
        at: Option<u64>,
    ) -> Result<u64, FtlError> {
        let state = &mut self.points[point];
        let (block, first, past) = (state.open, state.programmed, state.filled);
        let full = past == self.data_pages;
        let at = at.map(|at| at.max(state.waiting_from_ns));
        let host_pages = std::mem::take(&mut state.waiting_host_pages);
        state.waiting_from_ns = 0;
        state.programmed = past;
        // With one-shot programming the summary shares the last unit.
        let joined = u32::from(full && self.summary.is_some() && self.pages_per_program > 1);
        let mut programmed = self.nand.program(block, first, past - first + joined, bytes, at)?;
        if full && let Some(summary_bytes) = self.summary {
            self.counts.metadata_pages += 1;
            if joined == 0 && !programmed.failed {
                programmed =
                    self.nand.program(block, self.data_pages, 1, Some(summary_bytes), at)?;
            }
        }
        let mut done_ns = programmed.done_ns;
        if programmed.failed {
            done_ns = done_ns.max(self.give_up(point, first, at)?);
        } else if full {
            self.seal(point);
        }
        if self.buffered && at.is_some() && host_pages > 0 {
            self.released.push((done_ns, host_pages));
            let base = block * self.pages_per_block;
            let plane = point / self.streams.count as usize;
            let under_way = &mut self.planes[plane].under_way;
            // Nobody will ask for a time at which these were under way.
            let now = self.nand.now_ns();
            while under_way.front().is_some_and(|&(.., end)| end <= now) {
                under_way.pop_front();
            }
            under_way.push_back((base + first, base + past, done_ns));
        }
        Ok(done_ns)
    }

    fn seal(&mut self, point: usize) {
        let state = &mut self.points[point];
        let block = std::mem::replace(&mut state.open, NONE);
        self.states[block as usize] = State::Sealed;
        let live = self.live_pages[block as usize].into();
        self.victims.seal(block, live, self.sequence, state.youngest);
        self.streams.sealed(block, self.sequence);
    }
}
