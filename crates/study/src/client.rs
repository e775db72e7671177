//! Clients of a simulated drive whose engine they ask through its block interface.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use mjolnir_device::Runtime;
use mjolnir_engine::Engine;
use mjolnir_store::{Chunk, Durability, Error, Store, ZeroMode};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, TreeId};
use mjolnir_vtime::SimRuntime;
use mjolnir_workload::{Op, Request};

use super::drive::SimDrive;
use super::drive::payload::{self, PLAIN_BLOCKS, Tagged};
use super::front::Front;
use super::limits::Limits;
use super::meter::Meter;
use super::oracle::Oracle;

pub(super) type StudyEngine = Engine<SimDrive, SimRuntime>;

/// What all clients share.
pub(super) struct Host {
    pub runtime: SimRuntime,
    pub engine: StudyEngine,
    pub volume: TreeId,
    pub front: Front,
    /// Whether a write is done once it is in the drive's memory; else once it is on NAND.
    pub buffered: bool,
    pub oracle: Option<RefCell<Oracle>>,
    pub tagged: Tagged,
    pub meter: RefCell<Option<Meter>>,
    pub limits: Limits,
    /// Why the run cannot go on.
    pub failed: RefCell<Option<String>>,
}

/// The whole blocks that a request touches: the first, and how many.
fn touched(request: &Request) -> (u64, u64) {
    let first = request.offset / BLOCK_SIZE;
    (first, request.end().div_ceil(BLOCK_SIZE) - first)
}

/// The whole blocks that lie in it.
fn within(request: &Request) -> (u64, u64) {
    let first = request.offset.div_ceil(BLOCK_SIZE);
    (first, (request.end() / BLOCK_SIZE).saturating_sub(first))
}

impl Host {
    /// Whether another request may be made now; else the run is over, or has failed.
    pub fn goes_on(&self) -> bool {
        self.limits.allow(self.runtime.now_ns()) && self.failed.borrow().is_none()
    }

    /// What courses are drawn over: nanoseconds, or requests where nothing takes time, since the
    /// beginning.
    pub fn sampled_at(&self) -> u64 {
        match self.runtime.is_timed() {
            true => self.runtime.now_ns() - self.limits.from_ns(),
            false => self.limits.taken(),
        }
    }

    /// Takes one request off what may be made.
    pub fn take(&self, request: &Request) {
        self.limits.take(request);
    }

    /// Ends the run with a sentence. The first counts.
    pub fn fail(&self, why: String) {
        self.failed.borrow_mut().get_or_insert(why);
    }

    /// Makes a request that arrived at `arrival_ns`, and measures it.
    pub async fn serve(&self, request: Request, arrival_ns: u64) {
        let outcome = if self.runtime.is_timed() {
            self.serve_timed(&request).await
        } else {
            self.perform(&request).await.map(|()| self.runtime.now_ns())
        };
        self.runtime.note_progress();
        match outcome {
            Ok(done_ns) => {
                if let Some(meter) = &mut *self.meter.borrow_mut() {
                    let Request { op, offset, length, .. } = request;
                    meter.completed(arrival_ns, done_ns, op, offset, length);
                }
            }
            Err(why) => self.fail(why),
        }
    }

    /// As [`serve`](Self::serve), through queue, link and core. Returns when it was done.
    async fn serve_timed(&self, request: &Request) -> Result<u64, String> {
        let _place = self.front.enter().await;
        let now = self.runtime.now_ns();
        let (front, bytes) = (&self.front, request.length);
        match request.op {
            Op::Write => {
                let received = front.compute(front.transfer(now, bytes));
                let buffer_ns = if self.buffered { front.buffer_ns } else { 0 };
                front.until(received + buffer_ns).await;
                self.perform(request).await?;
                Ok(self.runtime.now_ns())
            }
            Op::Read => {
                let begun = front.compute(now);
                front.until(begun).await;
                self.perform(request).await?;
                let read = self.runtime.now_ns();
                // What no page was read for came out of the drive's memory.
                let ready = if read > begun { read } else { read + front.buffer_ns };
                let done = front.transfer(ready, bytes);
                front.until(done).await;
                Ok(done)
            }
            Op::Trim | Op::WriteZeroes | Op::Flush => {
                let received = front.compute(front.transfer(now, 0));
                front.until(received + front.buffer_ns).await;
                self.perform(request).await?;
                Ok(self.runtime.now_ns())
            }
        }
    }

    /// What the engine does for a request.
    async fn perform(&self, request: &Request) -> Result<(), String> {
        let outcome = match request.op {
            Op::Write => {
                let (first, count) = touched(request);
                self.merge(request).await?;
                self.write(first, count).await
            }
            Op::Read => {
                let (first, count) = touched(request);
                return self.read(first, count).await;
            }
            Op::Trim | Op::WriteZeroes => {
                let (first, count) = within(request);
                self.trim(first, count, request.op).await
            }
            Op::Flush => self.engine.flush().await,
        };
        outcome.map_err(|error| self.explain(request, &error))
    }

    fn explain(&self, request: &Request, error: &Error) -> String {
        format!(
            "a {} of {} bytes at byte {} of the drive failed: {error}",
            request.op, request.length, request.offset
        )
    }

    /// Reads the blocks of which a write changes only a part.
    async fn merge(&self, request: &Request) -> Result<(), String> {
        let (first, count) = touched(request);
        let ends = [(request.offset, first), (request.end(), first + count - 1)];
        let partial = ends.iter().filter(|(at, _)| !at.is_multiple_of(BLOCK_SIZE));
        let mut merged = None;
        for &(_, block) in partial {
            if merged != Some(block) {
                self.read(block, 1).await?;
                merged = Some(block);
            }
        }
        Ok(())
    }

    /// Writes whole blocks.
    pub async fn write(&self, first: u64, count: u64) -> Result<(), Error> {
        let durability = if self.buffered { Durability::Buffered } else { Durability::Durable };
        let mut done = 0;
        while done < count {
            let (at, part) = (first + done, (count - done).min(PLAIN_BLOCKS as u64));
            let offset = at * BLOCK_SIZE;
            match &self.oracle {
                None => {
                    let data = payload::plain(part as usize);
                    self.engine.write(self.volume, offset, data, durability).await?;
                }
                Some(oracle) => {
                    let tag = oracle.borrow_mut().draw(part);
                    let data = self.tagged.blocks(tag, part as usize);
                    oracle.borrow_mut().begin_write(at, part, Some(tag));
                    self.engine.write(self.volume, offset, data, durability).await?;
                    oracle.borrow_mut().end_write(at, part, Some(tag));
                }
            }
            done += part;
        }
        Ok(())
    }

    async fn trim(&self, first: u64, count: u64, op: Op) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let (offset, length) = (first * BLOCK_SIZE, count * BLOCK_SIZE);
        if let Some(oracle) = &self.oracle {
            oracle.borrow_mut().begin_write(first, count, None);
        }
        let buffered = Durability::Buffered;
        if op == Op::Trim {
            self.engine.trim(self.volume, offset, length, buffered).await?;
        } else {
            let unmap = ZeroMode::Unmap;
            self.engine.write_zeroes(self.volume, offset, length, unmap, buffered).await?;
        }
        if let Some(oracle) = &self.oracle {
            oracle.borrow_mut().end_write(first, count, None);
        }
        Ok(())
    }

    /// Reads whole blocks, and checks what they hold.
    pub async fn read(&self, first: u64, count: u64) -> Result<(), String> {
        let reader =
            self.oracle.as_ref().map(|oracle| oracle.borrow_mut().begin_read(first, count));
        let read = self.engine.read(self.volume, first * BLOCK_SIZE, count * BLOCK_SIZE).await;
        let chunks = read.map_err(|error| {
            format!("a read of {count} blocks at block {first} of the drive failed: {error}")
        })?;
        if let (Some(oracle), Some(reader)) = (&self.oracle, reader) {
            let mut tags = Vec::with_capacity(count as usize);
            for chunk in &chunks {
                match chunk {
                    Chunk::Zeroes(bytes) => {
                        tags.extend((0..bytes / BLOCK_SIZE).map(|_| 0));
                    }
                    Chunk::Data(bytes) => {
                        let blocks = bytes.chunks_exact(BLOCK_BYTES);
                        tags.extend(blocks.map(|block| payload::tag_of(block).unwrap_or(u64::MAX)));
                    }
                }
            }
            oracle.borrow_mut().end_read(reader, &tags)?;
        }
        Ok(())
    }
}

/// Clients that are under way.
#[derive(Default)]
pub(super) struct Clients {
    left: Cell<usize>,
    waiting: RefCell<Option<Waker>>,
}

impl Clients {
    /// Starts a client.
    pub fn spawn(
        self: &Rc<Self>,
        runtime: &SimRuntime,
        client: impl Future<Output = ()> + 'static,
    ) {
        self.left.set(self.left.get() + 1);
        let own = self.clone();
        runtime.spawn(async move {
            client.await;
            own.left.set(own.left.get() - 1);
            if own.left.get() == 0
                && let Some(waker) = own.waiting.take()
            {
                waker.wake();
            }
        });
    }

    /// Waits for all.
    pub async fn all(&self) {
        poll_fn(|context| {
            if self.left.get() == 0 {
                return Poll::Ready(());
            }
            self.waiting.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
