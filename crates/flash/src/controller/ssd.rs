//! A drive: requests in, completions out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::{Device, DeviceError};
use crate::ftl::{FtlError, PageMapped, Read};
use crate::nand::Timeline;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes; where a page is written in part, the rest of it is read first.
    Write,
    /// Forgets the pages that lie wholly within.
    Trim,
    /// Ends when every write before it is on NAND. Offset and length are of no matter.
    Flush,
}

/// A request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub kind: RequestKind,
    /// Where, in bytes from the drive's start.
    pub offset_bytes: u64,
    /// How much, in bytes; above 0.
    pub length_bytes: u64,
}

/// When a request began and ended, in nanoseconds of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When the drive took it: later than its arrival if the queue was full.
    pub accepted_ns: u64,
    /// When it was done.
    pub done_ns: u64,
}

/// Why a request cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Some of it lies beyond the drive's end.
    #[error(
        "a request of {length_bytes} bytes at byte {offset_bytes} is empty or beyond the end of \
         the drive, which has {drive_bytes} bytes"
    )]
    OutOfRange {
        /// Where it begins.
        offset_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// Bytes of the drive.
        drive_bytes: u64,
    },
    /// It came before the one before it.
    #[error("a request arrives at {now_ns} ns, before the last one at {last_ns} ns")]
    TimeRunsBack {
        /// Its arrival.
        now_ns: u64,
        /// The arrival before.
        last_ns: u64,
    },
    /// The firmware cannot.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

/// A simulated drive.
///
/// Submit requests in order of their arrival; each is answered at once with the time of its
/// completion, which later requests do not change.
pub struct Ssd {
    ftl: PageMapped,
    page_bytes: u64,
    queue_depth: usize,
    link_ns_per_byte: f64,
    link_command_ns: u64,
    buffer_pages: u64,
    buffer_ns: u64,
    read_overhead_ns: u64,
    link: Timeline,
    last_ns: u64,
    /// Ends of the requests under way, where the queue has a limit that matters.
    under_way: BinaryHeap<Reverse<u64>>,
    /// Pages in the write buffer, and when programs will free how many of them.
    buffered_pages: u64,
    freed: BinaryHeap<Reverse<(u64, u32)>>,
    /// Until when the buffer was full: a program frees several pages at once, none before it ends.
    full_until_ns: u64,
    /// When the last page is on NAND that is programmed, or being so.
    written_ns: u64,
}

impl Ssd {
    /// A new drive, empty and at rest at time 0.
    pub fn new(device: &Device, seed: u64) -> Result<Self, DeviceError> {
        device.check(&device.name)?;
        Ok(Self::with_ftl(device, PageMapped::new(device, seed)))
    }

    /// The same, but every read is checked against what was written last.
    pub fn with_oracle(device: &Device, seed: u64) -> Result<Self, DeviceError> {
        device.check(&device.name)?;
        Ok(Self::with_ftl(device, PageMapped::new(device, seed).with_oracle()))
    }

    /// A drive at rest whose firmware is in a state: one that was restored, say.
    pub fn with_ftl(device: &Device, ftl: PageMapped) -> Self {
        let controller = &device.controller;
        let page_bytes = u64::from(device.nand.page_bytes);
        Ssd {
            ftl,
            page_bytes,
            queue_depth: controller.queue_depth as usize,
            link_ns_per_byte: controller.link_ns_per_byte,
            link_command_ns: controller.link_command_ns,
            buffer_pages: controller.write_buffer_bytes / page_bytes,
            buffer_ns: controller.buffer_ns,
            read_overhead_ns: controller.read_overhead_ns,
            link: Timeline::default(),
            last_ns: 0,
            under_way: BinaryHeap::new(),
            buffered_pages: 0,
            freed: BinaryHeap::new(),
            full_until_ns: 0,
            written_ns: 0,
        }
    }

    /// Bytes that the drive offers.
    pub fn bytes(&self) -> u64 {
        self.ftl.logical_pages() * self.page_bytes
    }

    /// The firmware: its counts, its report, its state.
    pub fn ftl(&self) -> &PageMapped {
        &self.ftl
    }

    /// The firmware, to precondition, save or record it.
    pub fn ftl_mut(&mut self) -> &mut PageMapped {
        &mut self.ftl
    }

    /// Submits a request that arrives at `now_ns`, which is no earlier than the last one's.
    pub fn submit(&mut self, now_ns: u64, request: Request) -> Result<Completion, RequestError> {
        if now_ns < self.last_ns {
            return Err(RequestError::TimeRunsBack { now_ns, last_ns: self.last_ns });
        }
        let Request { kind, offset_bytes, length_bytes } = request;
        let end = offset_bytes.checked_add(length_bytes);
        let drive_bytes = self.bytes();
        let inside = length_bytes > 0 && end.is_some_and(|end| end <= drive_bytes);
        if kind != RequestKind::Flush && !inside {
            return Err(RequestError::OutOfRange { offset_bytes, length_bytes, drive_bytes });
        }
        self.last_ns = now_ns;
        let accepted_ns = self.accept(now_ns);
        self.ftl.nand_mut().advance(now_ns);
        let done_ns = match kind {
            RequestKind::Read => self.read(accepted_ns, offset_bytes, length_bytes)?,
            RequestKind::Write => self.write(accepted_ns, offset_bytes, length_bytes)?,
            RequestKind::Trim => {
                let first = offset_bytes.div_ceil(self.page_bytes);
                let past = (offset_bytes + length_bytes) / self.page_bytes;
                for page in first..past {
                    self.ftl.trim(page)?;
                }
                self.transfer(accepted_ns, 0) + self.buffer_ns
            }
            RequestKind::Flush => {
                let command = self.transfer(accepted_ns, 0);
                let flushed = self.ftl.flush(Some(command))?;
                self.collect_released();
                self.written_ns = self.written_ns.max(flushed);
                self.written_ns.max(command)
            }
        };
        self.under_way.push(Reverse(done_ns));
        Ok(Completion { accepted_ns, done_ns })
    }

    /// When there is room in the queue.
    fn accept(&mut self, now_ns: u64) -> u64 {
        while self.under_way.peek().is_some_and(|&Reverse(done)| done <= now_ns) {
            self.under_way.pop();
        }
        let mut accepted = now_ns;
        while self.under_way.len() >= self.queue_depth
            && let Some(Reverse(done)) = self.under_way.pop()
        {
            accepted = done;
        }
        accepted
    }

    /// Takes the link for a command and its data; answers when that is over.
    fn transfer(&mut self, earliest: u64, bytes: u64) -> u64 {
        let data = (bytes as f64 * self.link_ns_per_byte).round() as u64;
        let length = self.link_command_ns + data;
        self.link.take(self.last_ns, earliest, length) + length
    }

    /// The pages that a range touches, each with whether it is touched in part only.
    fn pages(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, bool)> + use<> {
        let page_bytes = self.page_bytes;
        let end = offset + length;
        (offset / page_bytes..end.div_ceil(page_bytes)).map(move |page| {
            let start = page * page_bytes;
            (page, offset > start || end < start + page_bytes)
        })
    }

    fn read(&mut self, at: u64, offset: u64, length: u64) -> Result<u64, RequestError> {
        let mut ready = at;
        for (page, _) in self.pages(offset, length) {
            let done = match self.ftl.read(page, Some(at))? {
                Read::Nand(done_ns) => done_ns + self.read_overhead_ns,
                Read::Unmapped | Read::Buffered => at + self.buffer_ns,
            };
            ready = ready.max(done);
        }
        self.collect_released();
        Ok(self.transfer(ready, length))
    }

    fn write(&mut self, at: u64, offset: u64, length: u64) -> Result<u64, RequestError> {
        let received = self.transfer(at, length);
        let mut done = received;
        for (page, partial) in self.pages(offset, length) {
            let mut begin = received;
            if self.buffer_pages > 0 {
                begin = self.buffer_page(received)?;
                done = done.max(begin + self.buffer_ns);
            }
            if partial && let Some(merged) = self.ftl.merge(page, Some(begin))? {
                begin = merged;
            }
            let programmed = self.ftl.write(page, Some(begin))?;
            self.written_ns = self.written_ns.max(programmed);
            if self.buffer_pages == 0 {
                done = done.max(programmed);
            } else {
                self.collect_released();
            }
        }
        Ok(done)
    }

    /// Finds room for a page in the write buffer; answers when there is some.
    fn buffer_page(&mut self, at: u64) -> Result<u64, RequestError> {
        let mut begin = at.max(self.full_until_ns);
        while let Some(&Reverse((done, pages))) = self.freed.peek()
            && (done <= begin || self.buffered_pages >= self.buffer_pages)
        {
            self.freed.pop();
            self.buffered_pages -= u64::from(pages);
            begin = begin.max(done);
        }
        if self.buffered_pages >= self.buffer_pages {
            // All of it waits for program units to fill up: it cannot, so they go as they are.
            self.ftl.flush(Some(begin))?;
            self.collect_released();
            if let Some(Reverse((done, pages))) = self.freed.pop() {
                self.buffered_pages -= u64::from(pages);
                begin = begin.max(done);
            }
        }
        if begin > at {
            self.full_until_ns = begin;
        }
        self.buffered_pages += 1;
        Ok(begin)
    }

    fn collect_released(&mut self) {
        let (freed, written_ns) = (&mut self.freed, &mut self.written_ns);
        self.ftl.take_released(|done, pages| {
            freed.push(Reverse((done, pages)));
            *written_ns = (*written_ns).max(done);
        });
    }
}
