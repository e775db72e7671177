//! Requests through io_uring.
//!
//! A started request goes into a queue. The *driver*, a task on the executor's thread, moves the
//! queue into the ring and submits it. The first request wakes the driver, which runs after the
//! tasks that are ready already: so all their requests go to the kernel in one system call. Long
//! requests and long queues are submitted at once. The kernel signals completions through an
//! eventfd, which wakes the driver.
//!
//! Beyond a number of bytes in the kernel, further writes wait: a read waits on the device for the
//! writes in the kernel, and a store may have 64 MiB to write.
//!
//! # Safety argument
//!
//! The one `unsafe` is in [`Tables::submit`], for the entries of [`Tables::entry`]. The kernel is
//! given pointers into three kinds of memory: the bytes of a write's pieces (`Bytes`, immutable),
//! the bytes of a read's [`AlignedBuf`], and the request's vector of `iovec`. All three are memory
//! that does not move when its owner moves, owned by the request's slot; an `iovec` may cover
//! several pieces that lie side by side. While a request is in the kernel nothing takes its slot
//! away, resizes its vectors, or looks at its buffer: a slot is freed by `complete` only, on the
//! final completion, and a [`Pending`] that is dropped earlier merely marks the slot. Dropping the
//! [`Ring`] waits for every request in the kernel; if it cannot, it leaks their memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_io::Async;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use mjolnir_device::{AlignedBuf, Runtime};
use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use super::{Hold, Request, Target, remaining, total};

/// Requests that the ring's queue takes at once; more wait in ours.
const ENTRIES: u32 = 256;
/// Requests that wait for no others. More at once would save system calls and leave the device idle
/// while a deep queue of requests is prepared: client and device would take turns.
const PROMPT: usize = 4;
/// Bytes of a request that waits for none: beside what moving them takes, a system call is nothing.
const PROMPT_BYTES: usize = 128 << 10;
/// Bytes of writes that the kernel has at once, but for a single one that is larger: some milliseconds
/// of a disk, and more than a fast one needs to be busy.
const WRITE_BYTES_MAX: usize = 8 << 20;

/// A ring, and the requests in it. Dropping the last handle waits for the kernel to finish them.
pub(crate) struct Ring {
    tables: RefCell<Tables>,
}

struct Tables {
    ring: IoUring,
    slots: Slab<Slot>,
    /// What is not in the kernel yet: writes, and all else.
    writes: VecDeque<usize>,
    queued: VecDeque<usize>,
    in_kernel: usize,
    /// Bytes of the writes that are.
    write_bytes: usize,
    driver: Option<Waker>,
    target: Arc<Target>,
}

struct Slot {
    request: Request,
    /// Bytes transferred so far.
    done: usize,
    /// Bytes that the kernel is to write.
    writing: usize,
    iovecs: Vec<libc::iovec>,
    outcome: Option<io::Result<()>>,
    waker: Option<Waker>,
    /// Nobody waits for the outcome.
    abandoned: bool,
    hold: Option<Hold>,
}

impl Slot {
    /// Bytes of a write that are not written.
    fn left_to_write(&self) -> usize {
        match &self.request {
            Request::Write { pieces, .. } => total(pieces) - self.done,
            _ => 0,
        }
    }
}

impl Ring {
    /// A new ring on that file, and its driver on `runtime`.
    pub fn new(target: Arc<Target>, runtime: &impl Runtime) -> io::Result<Rc<Self>> {
        // The friendliest mode that the kernel knows: no interrupts to run completion work.
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .setup_single_issuer()
            .build(ENTRIES)
            .or_else(|_| IoUring::new(ENTRIES))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's ring is too old"));
        }
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let tables = Tables {
            ring,
            slots: Slab::new(),
            writes: VecDeque::new(),
            queued: VecDeque::new(),
            in_kernel: 0,
            write_bytes: 0,
            driver: None,
            target,
        };
        let ring = Rc::new(Ring { tables: RefCell::new(tables) });
        let event = Async::new_nonblocking(event)?;
        runtime.spawn(Driver { ring: Rc::downgrade(&ring), event });
        Ok(ring)
    }

    /// Queues a request. The driver does the rest, but for a long one, or a long queue, which is
    /// submitted at once.
    pub fn start(this: &Rc<Self>, request: Request, hold: Option<Hold>) -> Pending {
        let mut tables = this.tables.borrow_mut();
        let long = request.bytes() >= PROMPT_BYTES;
        let hold = match request {
            Request::Sync => Some(tables.target.begin_sync()),
            _ => hold,
        };
        let slot = tables.slots.insert(Slot {
            request,
            done: 0,
            writing: 0,
            iovecs: Vec::new(),
            outcome: None,
            waker: None,
            abandoned: false,
            hold,
        });
        tables.enqueue(slot);
        let prompt = match tables.next() {
            None => false,
            Some(_) if long => true,
            Some((_, Some(_))) => tables.writes.len() >= PROMPT,
            Some((_, None)) => tables.queued.len() >= PROMPT,
        };
        // What fails is tried again by the driver.
        let failed = prompt && tables.submit().is_err();
        let driver = if failed || tables.next().is_some() { tables.driver.take() } else { None };
        drop(tables);
        if let Some(driver) = driver {
            driver.wake();
        }
        Pending { ring: this.clone(), slot: Some(slot) }
    }
}

impl Tables {
    fn enqueue(&mut self, slot: usize) {
        match self.slots[slot].request {
            Request::Write { .. } => self.writes.push_back(slot),
            _ => self.queued.push_back(slot),
        }
    }

    /// The request that goes to the kernel next; of a write, how many bytes, too. One goes before all
    /// else where the kernel has none: reads without end keep no write waiting.
    fn next(&self) -> Option<(usize, Option<usize>)> {
        let none = self.write_bytes == 0;
        let fits = |bytes: &usize| none || self.write_bytes + bytes <= WRITE_BYTES_MAX;
        let write = self.writes.front().map(|&slot| (slot, self.slots[slot].left_to_write()));
        let write = write.filter(|(_, bytes)| fits(bytes)).map(|(slot, bytes)| (slot, Some(bytes)));
        let other = self.queued.front().map(|&slot| (slot, None));
        if none { write.or(other) } else { other.or(write) }
    }

    /// Hands queued requests to the kernel, as many as may be there at once.
    fn submit(&mut self) -> io::Result<()> {
        loop {
            while self.can_submit()
                && let Some((slot, writing)) = self.next()
                && !self.ring.submission().is_full()
            {
                let entry = self.entry(slot);
                // SAFETY: the entry's pointers stay valid until its completion, by the argument
                // at the head of this module; from here on the slot counts as in the kernel.
                unsafe { self.ring.submission().push(&entry) }.expect("there is room");
                let queue = if writing.is_some() { &mut self.writes } else { &mut self.queued };
                assert_eq!(queue.pop_front(), Some(slot), "what was next is another");
                let writing = writing.unwrap_or(0);
                self.slots[slot].writing = writing;
                self.write_bytes += writing;
                self.in_kernel += 1;
            }
            // What an earlier failure left in the ring's queue is submitted too.
            if self.ring.submission().is_empty() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Whether one more completion would find room in the ring: what does not find any is kept
    /// apart by the kernel, and told of by nothing.
    fn can_submit(&self) -> bool {
        self.in_kernel < self.ring.params().cq_entries() as usize
    }

    /// The ring's entry for what is left of a request.
    fn entry(&mut self, index: usize) -> squeue::Entry {
        // Not registered with the ring: a closed ring keeps what is registered open for a while.
        let file = types::Fd(self.target.file.as_raw_fd());
        // The kernel transfers at most this much at a time; the rest follows.
        const TRANSFER_MAX: usize = 1 << 30;
        let slot = &mut self.slots[index];
        let done = slot.done;
        let entry = match &mut slot.request {
            Request::Write { offset, pieces } => {
                slot.iovecs.clear();
                remaining(pieces, done).for_each(|piece| append(&mut slot.iovecs, piece));
                let at = *offset + done as u64;
                match slot.iovecs.as_slice() {
                    [only] => {
                        let length = only.iov_len.min(TRANSFER_MAX) as u32;
                        opcode::Write::new(file, only.iov_base.cast(), length).offset(at).build()
                    }
                    many => opcode::Writev::new(file, many.as_ptr(), many.len() as u32)
                        .offset(at)
                        .build(),
                }
            }
            Request::Read { offset, buffer } => {
                let rest = &mut buffer.as_mut()[done..];
                let length = rest.len().min(TRANSFER_MAX) as u32;
                opcode::Read::new(file, rest.as_mut_ptr(), length)
                    .offset(*offset + done as u64)
                    .build()
            }
            Request::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            Request::Punch { offset, length } => opcode::Fallocate::new(file, *length)
                .offset(*offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
        };
        entry.user_data(index as u64)
    }

    /// Takes in what the kernel has completed; collects the wakers of those who wait for it.
    fn reap(&mut self, woken: &mut Vec<Waker>) {
        while let Some(completion) = self.next_completion() {
            self.in_kernel -= 1;
            woken.extend(self.complete(completion.user_data() as usize, completion.result()));
        }
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// The kernel is done with the entry of a slot, with `result`.
    fn complete(&mut self, index: usize, result: i32) -> Option<Waker> {
        let slot = &mut self.slots[index];
        self.write_bytes -= std::mem::take(&mut slot.writing);
        let outcome = match (&slot.request, usize::try_from(result)) {
            (_, Err(_)) => Err(io::Error::from_raw_os_error(-result)),
            (Request::Sync | Request::Punch { .. }, _) => Ok(true),
            (Request::Write { .. }, Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            (Request::Read { .. }, Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            (Request::Write { pieces, .. }, Ok(count)) => {
                slot.done += count;
                Ok(slot.done == total(pieces))
            }
            (Request::Read { buffer, .. }, Ok(count)) => {
                slot.done += count;
                Ok(slot.done == buffer.len())
            }
        };
        let again = match &outcome {
            Ok(whole) => !whole,
            Err(error) => {
                matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
            }
        };
        if again {
            self.enqueue(index);
            return None;
        }
        let mut outcome = outcome.map(|_| ());
        if matches!(slot.request, Request::Sync) {
            outcome = self.target.note_sync(outcome);
        }
        slot.hold = None;
        if slot.abandoned {
            self.slots.remove(index);
            return None;
        }
        slot.outcome = Some(outcome);
        slot.waker.take()
    }
}

/// Adds a piece of memory, as a part of the last one where it lies right behind it: buffers that were
/// taken one after another do.
fn append(iovecs: &mut Vec<libc::iovec>, piece: &[u8]) {
    let (start, length) = (piece.as_ptr().cast_mut().cast::<libc::c_void>(), piece.len());
    match iovecs.last_mut() {
        Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == start => {
            last.iov_len += length;
        }
        _ => iovecs.push(libc::iovec { iov_base: start, iov_len: length }),
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        while self.in_kernel > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(_) if self.ring.completion().is_empty() => {
                    // The kernel may still use the memory of the requests: never free it.
                    std::mem::forget(std::mem::take(&mut self.slots));
                    return;
                }
                Err(_) => {}
            }
            while let Some(completion) = self.next_completion() {
                self.in_kernel -= 1;
                let slot = &mut self.slots[completion.user_data() as usize];
                if matches!(slot.request, Request::Sync) && completion.result() < 0 {
                    let error = io::Error::from_raw_os_error(-completion.result());
                    let _ = self.target.note_sync(Err(error));
                }
                slot.hold = None;
            }
        }
    }
}

/// The task that tends a ring. Ends when the ring is gone.
struct Driver {
    ring: Weak<Ring>,
    event: Async<OwnedFd>,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(ring) = self.ring.upgrade() else { return Poll::Ready(()) };
        let mut woken = Vec::new();
        let mut tables = ring.tables.borrow_mut();
        tables.driver = Some(context.waker().clone());
        loop {
            let submitted = tables.submit();
            tables.reap(&mut woken);
            if let Err(error) = submitted {
                // Out of resources for the moment, or interrupted: what was completed makes room.
                let retry = matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM)
                );
                assert!(retry, "io_uring_enter failed: {error}");
                context.waker().wake_by_ref();
                break;
            }
            if tables.next().is_some() && tables.can_submit() {
                continue;
            }
            match self.event.poll_readable(context) {
                Poll::Ready(Ok(())) => {
                    // Clear it before looking for completions, so that none goes unnoticed.
                    let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
                }
                Poll::Ready(Err(error)) => panic!("waiting for an eventfd failed: {error}"),
                Poll::Pending => break,
            }
        }
        drop(tables);
        for waker in woken {
            waker.wake();
        }
        // If this was the last handle, its drop waits for the kernel, here as anywhere.
        drop(ring);
        Poll::Pending
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(driver) = self.tables.get_mut().driver.take() {
            driver.wake();
        }
    }
}

/// The outcome of a request that was started.
pub(crate) struct Pending {
    ring: Rc<Ring>,
    /// `None` once the outcome was taken.
    slot: Option<usize>,
}

impl Future for Pending {
    type Output = io::Result<Option<AlignedBuf>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let index = self.slot.expect("not polled after completion");
        let mut tables = self.ring.tables.borrow_mut();
        let slot = &mut tables.slots[index];
        let Some(outcome) = slot.outcome.take() else {
            match &mut slot.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        };
        let slot = tables.slots.remove(index);
        drop(tables);
        self.slot = None;
        Poll::Ready(outcome.map(|()| match slot.request {
            Request::Read { buffer, .. } => Some(buffer),
            _ => None,
        }))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(index) = self.slot else { return };
        let mut tables = self.ring.tables.borrow_mut();
        let slot = &mut tables.slots[index];
        if slot.outcome.is_some() {
            tables.slots.remove(index);
        } else {
            slot.abandoned = true;
            // Dropping a waker may run anything: not while the tables are borrowed.
            let waker = slot.waker.take();
            drop(tables);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_device::Buffers;

    use super::*;

    #[test]
    fn pieces_that_lie_side_by_side_go_as_one() {
        let buffers = Buffers::default();
        let [first, second, third] = [1, 2, 1].map(|blocks| buffers.take(blocks * 4096));
        let apart = AlignedBuf::zeroed(4096);
        let mut iovecs = Vec::new();
        for piece in [&first, &second, &apart, &third] {
            append(&mut iovecs, piece.as_ref());
        }
        let told: Vec<_> =
            iovecs.iter().map(|iovec| (iovec.iov_base.addr(), iovec.iov_len)).collect();
        let start = |buffer: &AlignedBuf| buffer.as_ref().as_ptr().addr();
        let expected = [(start(&first), 3 * 4096), (start(&apart), 4096), (start(&third), 4096)];
        assert_eq!(told, expected);
    }
}
