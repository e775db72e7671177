//! The array: state of its erase blocks, and time of its dies and buses.

use crate::chance::Chance;
use crate::nand::die::DieClock;
use crate::nand::{Faults, Geometry, NandError, Part, Programmed, Span, Timeline, Timing};

/// Marks a retired erase block in `next_page`.
const RETIRED: u32 = u32::MAX;

/// A simulated NAND array.
///
/// Each operation takes the virtual time `at` at which it may begin at the earliest, and answers
/// when it ends. With `None` it changes the state of the medium but takes no time: that is how a
/// device is brought into a state at once.
///
/// # Model of time
///
/// A die serves its operations in the order in which they are asked for. It is busy from the
/// first to the last moment of each, transfers included, because they occupy its page register. A
/// read is: cells to register, then the bus as soon as it is free. A program: the bus, then
/// register to cells. A bus is reserved for each transfer at the first gap that is long enough.
///
/// **Invariants**: no die or bus does two things at once; programs are in order within an erase
/// block; equal calls give equal answers.
#[derive(Clone, Debug)]
pub struct Nand {
    geometry: Geometry,
    timing: Timing,
    faults: Faults,
    chance: Chance,
    transfer_ns: u64,
    /// The next page to program of each erase block; `RETIRED` where it takes none any more.
    next_page: Vec<u32>,
    erases: Vec<u32>,
    erases_total: u64,
    retired: u32,
    dies: Vec<DieClock>,
    buses: Vec<Timeline>,
    now_ns: u64,
    spans: Option<Vec<Span>>,
}

impl Nand {
    /// A new array: everything erased, no wear, idle at time 0. `seed` decides which operations
    /// fail, if any do.
    pub fn new(geometry: Geometry, timing: Timing, faults: Faults, seed: u64) -> Self {
        let page = f64::from(geometry.page_bytes + geometry.spare_bytes);
        let blocks = geometry.blocks() as usize;
        Nand {
            transfer_ns: (page * timing.bus_ns_per_byte).round() as u64,
            next_page: vec![0; blocks],
            erases: vec![0; blocks],
            erases_total: 0,
            retired: 0,
            dies: vec![DieClock::default(); geometry.dies() as usize],
            buses: vec![Timeline::default(); geometry.channels as usize],
            now_ns: 0,
            spans: None,
            chance: Chance(seed),
            geometry,
            timing,
            faults,
        }
    }

    /// What the array consists of.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What its operations take.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// How long one page takes on a bus, out-of-band bytes included.
    pub fn transfer_ns(&self) -> u64 {
        self.transfer_ns
    }

    /// The time that other parts of the device take on a bus for `bytes` bytes.
    fn bytes_ns(&self, bytes: u32) -> u64 {
        (f64::from(bytes) * self.timing.bus_ns_per_byte).round() as u64
    }

    /// Says that nothing will be asked for before `now_ns` any more. Never runs backwards.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// What was said last of what comes.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Keeps a record of what is busy when, from now on; for checks.
    pub fn record_spans(&mut self) {
        self.spans = Some(Vec::new());
    }

    /// Takes the record of what was busy since the last call. Empty if none is kept.
    pub fn take_spans(&mut self) -> Vec<Span> {
        self.spans.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Erases so far of an erase block.
    pub fn erases(&self, block: u32) -> u32 {
        self.erases[block as usize]
    }

    /// Erases so far of all erase blocks.
    pub fn wear(&self) -> &[u32] {
        &self.erases
    }

    /// Erases so far of all erase blocks together.
    pub fn erases_total(&self) -> u64 {
        self.erases_total
    }

    /// Whether an erase block is retired.
    pub fn is_retired(&self, block: u32) -> bool {
        self.next_page[block as usize] == RETIRED
    }

    /// How many erase blocks are retired.
    pub fn retired_blocks(&self) -> u32 {
        self.retired
    }

    /// The page of an erase block that is programmed next; none if it is retired.
    pub fn next_page(&self, block: u32) -> Option<u32> {
        Some(self.next_page[block as usize]).filter(|&next| next != RETIRED)
    }

    /// When the last operation of any die ends, if no further one comes between.
    pub fn idle_from(&self) -> u64 {
        self.dies.iter().map(DieClock::idle_from).max().unwrap_or(0).max(self.now_ns)
    }

    fn check(&self, block: u32, page: u32) -> Result<(), NandError> {
        if block >= self.geometry.blocks() || page >= self.geometry.pages_per_block {
            return Err(NandError::NoSuchPage { block, page });
        }
        Ok(())
    }

    fn span(spans: &mut Option<Vec<Span>>, part: Part, start_ns: u64, end_ns: u64) {
        if let Some(spans) = spans
            && end_ns > start_ns
        {
            spans.push(Span { part, start_ns, end_ns });
        }
    }

    /// Waits for the die, for what is no read.
    fn begin(&mut self, die: u32, earliest: u64) -> u64 {
        let spans = &mut self.spans;
        let mut worked = |start, end| Self::span(spans, Part::Die(die), start, end);
        self.dies[die as usize].start(earliest, &mut worked)
    }

    fn end(&mut self, die: u32, start: u64, end: u64) {
        Self::span(&mut self.spans, Part::Die(die), start, end);
        self.dies[die as usize].busy_until(end);
    }

    fn transfer(&mut self, die: u32, earliest: u64, length: u64) -> u64 {
        let bus = self.geometry.channel_of(die);
        let start = self.buses[bus as usize].take(self.now_ns, earliest, length);
        Self::span(&mut self.spans, Part::Bus(bus), start, start + length);
        start
    }

    fn read_ns(&self, page: u32) -> u64 {
        let times = &self.timing.read_ns;
        if times.len() == 1 { times[0] } else { times[page as usize % times.len()] }
    }

    fn program_ns(&self, page: u32) -> u64 {
        let times = &self.timing.program_ns;
        let unit = page / self.geometry.pages_per_program;
        if times.len() == 1 { times[0] } else { times[unit as usize % times.len()] }
    }

    /// Reads a page out of the array; answers when its last byte has crossed the bus.
    pub fn read(&mut self, block: u32, page: u32, at: Option<u64>) -> Result<u64, NandError> {
        self.check(block, page)?;
        let next = self.next_page[block as usize];
        if page >= next {
            return Err(NandError::NotProgrammed { block, page });
        }
        let Some(at) = at else { return Ok(0) };
        let at = at.max(self.now_ns);
        let die = self.geometry.die_of(block);
        let start = if self.timing.erase_suspend {
            let Timing { suspend_ns, resume_ns, suspends_max, .. } = self.timing;
            let spans = &mut self.spans;
            let mut worked = |start, end| Self::span(spans, Part::Die(die), start, end);
            let limits = (suspend_ns, resume_ns, suspends_max);
            self.dies[die as usize].start_read(at, limits, &mut worked).max(at)
        } else {
            self.begin(die, at)
        };
        let sensed = start + self.read_ns(page);
        let length = self.timing.command_ns + self.transfer_ns;
        let end = self.transfer(die, sensed, length) + length;
        self.end(die, start, end);
        Ok(end)
    }

    /// Programs the pages of one program unit, or fewer at the end of an erase block, from `page`
    /// on. `bytes` is what crosses the bus for them; `None` for whole pages, zero for pages that
    /// are in the page register already (copy-back).
    pub fn program(
        &mut self,
        block: u32,
        page: u32,
        pages: u32,
        bytes: Option<u32>,
        at: Option<u64>,
    ) -> Result<Programmed, NandError> {
        debug_assert!(pages > 0 && pages <= self.geometry.pages_per_program);
        self.check(block, page + (pages - 1))?;
        let next = &mut self.next_page[block as usize];
        if *next == RETIRED {
            return Err(NandError::Retired { block });
        }
        if *next != page {
            return Err(NandError::OutOfOrder { block, page, next: *next });
        }
        *next += pages;
        let failed = self.chance.happens(self.faults.program_failures_ppm);
        let Some(at) = at else { return Ok(Programmed { done_ns: 0, failed }) };
        let at = at.max(self.now_ns);
        let die = self.geometry.die_of(block);
        let free = self.begin(die, at);
        let payload = match bytes {
            None => self.transfer_ns * u64::from(pages),
            Some(bytes) => self.bytes_ns(bytes),
        };
        let length = if bytes == Some(0) { 0 } else { self.timing.command_ns + payload };
        let start = self.transfer(die, free, length);
        let done_ns = start + length + self.program_ns(page);
        self.end(die, start, done_ns);
        Ok(Programmed { done_ns, failed })
    }

    /// Copies pages within a plane, each through the page register without the bus. `reads` names
    /// the pages that are read (their types matter), and the caller programs the copies with zero
    /// bytes. Answers when the die has read them.
    pub fn sense(&mut self, block: u32, page: u32, at: Option<u64>) -> Result<u64, NandError> {
        self.check(block, page)?;
        if page >= self.next_page[block as usize] {
            return Err(NandError::NotProgrammed { block, page });
        }
        let Some(at) = at else { return Ok(0) };
        let die = self.geometry.die_of(block);
        let start = self.begin(die, at.max(self.now_ns));
        let end = start + self.read_ns(page);
        self.end(die, start, end);
        Ok(end)
    }

    /// Erases an erase block. Answers whether it still serves: where the erase failed, or wore the
    /// erase block out, it is retired.
    pub fn erase(&mut self, block: u32, at: Option<u64>) -> Result<bool, NandError> {
        self.check(block, 0)?;
        if self.is_retired(block) {
            return Err(NandError::Retired { block });
        }
        let erases = &mut self.erases[block as usize];
        *erases += 1;
        self.erases_total += 1;
        let worn = self.faults.endurance_erases.is_some_and(|limit| *erases >= limit);
        let failed = self.chance.happens(self.faults.erase_failures_ppm) || worn;
        self.next_page[block as usize] = 0;
        if failed {
            self.retire(block);
        }
        if let Some(at) = at {
            let die = self.geometry.die_of(block);
            let start = self.begin(die, at.max(self.now_ns));
            if self.timing.erase_suspend {
                self.dies[die as usize].owe_erase(start, self.timing.erase_ns);
            } else {
                self.end(die, start, start + self.timing.erase_ns);
            }
        }
        Ok(!failed)
    }

    /// Retires an erase block: no more programs or erases.
    pub fn retire(&mut self, block: u32) {
        if !self.is_retired(block) {
            self.next_page[block as usize] = RETIRED;
            self.retired += 1;
        }
    }

    /// The state that a saved device brings back: an erase block's next page and erases.
    pub fn restore(&mut self, block: u32, next_page: Option<u32>, erases: u32) {
        self.next_page[block as usize] = next_page.unwrap_or(0);
        self.erases_total += u64::from(erases);
        self.erases[block as usize] = erases;
        if next_page.is_none() {
            self.retire(block);
        }
    }

    /// The seeded source of failures, for saving.
    pub(crate) fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }
}
