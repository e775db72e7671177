//! Executes one request on the store.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_store::{Chunks, Durability, Error, Extent, Store, ZeroMode};
use mjolnir_units::BLOCK_SIZE;

use crate::Export;
use crate::errno::errno_of;
use crate::protocol::{Command, Errno, PAYLOAD_BYTES_MAX, Request, command_flag as flag};

/// The most extents told in one reply, and what each takes.
const EXTENTS_MAX: u64 = 8192;
const EXTENT_COST: u64 = size_of::<Extent>() as u64;

/// A request that passed [`check`], or a piece of one, with its payload.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) command: Command,
    /// The job's part of the request's range.
    pub(crate) range: Range<u64>,
    pub(crate) payload: Bytes,
    /// The memory that was set aside for it, in bytes.
    pub(crate) cost: u64,
    pub(crate) part: Part,
}

/// The part of a request that a job does.
pub(crate) enum Part {
    All,
    /// A piece of a write.
    OfWrite(Rc<Pieces>),
    /// A piece of a read; the next piece begins once this one is done.
    OfRead,
}

/// The outcome of a job.
pub(crate) struct Outcome {
    pub(crate) request: Request,
    pub(crate) range: Range<u64>,
    /// The memory that was set aside for it, in bytes.
    pub(crate) cost: u64,
    pub(crate) result: Result<Content, Refusal>,
}

impl Outcome {
    /// Whether this is the request's last piece.
    pub(crate) fn is_last(&self) -> bool {
        self.range.end == end_of(&self.request)
    }
}

/// A write whose payload is handled in pieces, which end in any order. It is answered once all have
/// ended.
pub(crate) struct Pieces {
    /// Bytes neither done nor skipped.
    left: Cell<u64>,
    /// The error of the first piece that failed.
    refusal: RefCell<Option<Refusal>>,
}

impl Pieces {
    /// Of a payload of so many bytes.
    pub(crate) fn of(bytes: u64) -> Rc<Self> {
        Rc::new(Pieces { left: Cell::new(bytes), refusal: RefCell::default() })
    }

    /// The pieces of a refused payload of `bytes` bytes.
    pub(crate) fn refused(bytes: u64, refusal: Refusal) -> Rc<Self> {
        Rc::new(Pieces { left: Cell::new(bytes), refusal: RefCell::new(Some(refusal)) })
    }

    /// Whether a piece failed, so that the rest is useless.
    pub(crate) fn failed(&self) -> bool {
        self.refusal.borrow().is_some()
    }

    /// Notes that `bytes` more bytes are done or skipped. After the last byte, returns the outcome
    /// of the write.
    pub(crate) fn end(&self, bytes: u64) -> Option<Result<(), Refusal>> {
        self.left.set(self.left.get() - bytes);
        (self.left.get() == 0).then(|| self.refusal.take().map_or(Ok(()), Err))
    }

    fn fail(&self, refusal: Refusal) {
        self.refusal.borrow_mut().get_or_insert(refusal);
    }
}

/// The content of a successful reply.
pub(crate) enum Content {
    Nothing,
    /// No reply yet: other pieces of the request have not ended.
    NoReply,
    Data(Chunks),
    Extents(Vec<Extent>),
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    pub(crate) message: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(errno: Errno, message: impl Into<Cow<'static, str>>) -> Self {
        Refusal { errno, message: message.into() }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::new(errno_of(&error), error.message)
    }
}

/// The most bytes of a reply without payload; more than any error's message takes.
pub(crate) const REPLY_COST: u64 = 1024;

/// The end of a request's range, in bytes. [`check`] has found the range within the export.
pub(crate) fn end_of(request: &Request) -> u64 {
    request.offset + u64::from(request.length)
}

/// Memory to set aside for a command on a range until its reply is queued, in bytes.
pub(crate) fn cost(command: Command, range: &Range<u64>) -> u64 {
    let touched = (range.end.div_ceil(BLOCK_SIZE) - range.start / BLOCK_SIZE) * BLOCK_SIZE;
    let more = match command {
        Command::Read => touched,
        // The payload, and the new content of each block that it writes in part.
        Command::Write => {
            let parts = [range.start, range.end].into_iter();
            let parts = parts.filter(|edge| !edge.is_multiple_of(BLOCK_SIZE)).count() as u64;
            payload_bytes(range.end - range.start) + touched.min(parts * BLOCK_SIZE)
        }
        Command::BlockStatus => EXTENTS_MAX * EXTENT_COST,
        _ => 0,
    };
    REPLY_COST + more
}

/// The memory of a payload of `length` bytes: buffers have whole blocks.
pub(crate) fn payload_bytes(length: u64) -> u64 {
    length.next_multiple_of(BLOCK_SIZE)
}

/// Refuses a request that can be refused without the store.
pub(crate) fn check(request: &Request, export: &Export) -> Result<Command, Refusal> {
    use Command::*;
    let invalid = |message: String| Err(Refusal::new(Errno::Inval, message));
    let Some(command) = Command::from_number(request.command) else {
        return invalid(format!("command {} is unknown", request.command));
    };
    if command == Disconnect {
        return Ok(command);
    }
    let allowed = flag::FUA
        | match command {
            Read if export.structured => flag::DF,
            WriteZeroes => flag::NO_HOLE | flag::FAST_ZERO,
            BlockStatus => flag::REQ_ONE,
            _ => 0,
        };
    if request.flags & !allowed != 0 {
        return invalid(format!("flags {:#x} do not suit {command:?}", request.flags));
    }
    if export.read_only && matches!(command, Write | Trim | WriteZeroes) {
        return Err(Refusal::new(
            Errno::Perm,
            format!("{:?} is open for reading only", export.target.name),
        ));
    }
    if command == Flush {
        return if (request.offset, request.length) == (0, 0) {
            Ok(command)
        } else {
            invalid("a flush has no offset and no length".to_owned())
        };
    }
    if matches!(command, Read | Write) && request.length > PAYLOAD_BYTES_MAX {
        return invalid(format!(
            "{} bytes are more than {PAYLOAD_BYTES_MAX} in one request",
            request.length
        ));
    }
    let end = request.offset.checked_add(u64::from(request.length));
    if end.is_none_or(|end| end > export.target.size) {
        return Err(Refusal::new(
            past_end(command),
            format!(
                "{} bytes at {} end past the export's {} bytes",
                request.length, request.offset, export.target.size
            ),
        ));
    }
    if command == BlockStatus && !export.block_status {
        return invalid("no metadata context was selected for this export".to_owned());
    }
    if command == BlockStatus && request.length == 0 {
        return invalid("the status of no bytes".to_owned());
    }
    Ok(command)
}

/// The protocol's error for a request past the end of the export.
fn past_end(command: Command) -> Errno {
    match command {
        Command::Write | Command::WriteZeroes => Errno::NoSpc,
        _ => Errno::Inval,
    }
}

/// Executes the job.
pub(crate) async fn execute<S: Store>(store: &S, export: &Export, job: Job) -> Outcome {
    let Job { request, command, range, payload, cost, part } = job;
    let (id, offset, length) = (export.target.id, range.start, range.end - range.start);
    let durability =
        if request.flags & flag::FUA != 0 { Durability::Durable } else { Durability::Buffered };
    let nothing = |()| Content::Nothing;
    let refusal = |error: Error| {
        let mut refusal = Refusal::from(error);
        // If the volume shrank after this client learned its size, writes past the new end fail,
        // too.
        let is_past_end = || store.info(id).is_ok_and(|now| end_of(&request) > now.size);
        if refusal.errno == Errno::Inval && is_past_end() {
            refusal.errno = past_end(command);
        }
        refusal
    };
    let result = match command {
        Command::Flush => store.flush().await.map(nothing),
        _ if length == 0 => Ok(Content::Nothing),
        Command::Read => store.read(id, offset, length).await.map(Content::Data),
        Command::Write => match part {
            Part::OfWrite(pieces) => {
                let written = store.write(id, offset, payload, Durability::Buffered).await;
                if let Err(error) = written {
                    pieces.fail(refusal(error));
                }
                match pieces.end(length) {
                    None => Ok(Content::NoReply),
                    Some(Err(refusal)) => {
                        return Outcome { request, range, cost, result: Err(refusal) };
                    }
                    // All pieces are acknowledged, so one flush covers them.
                    Some(Ok(())) if durability == Durability::Durable => {
                        store.flush().await.map(nothing)
                    }
                    Some(Ok(())) => Ok(Content::Nothing),
                }
            }
            _ => store.write(id, offset, payload, durability).await.map(nothing),
        },
        Command::Trim => store.trim(id, offset, length, durability).await.map(nothing),
        Command::Cache => store.cache(id, offset, length).await.map(nothing),
        Command::WriteZeroes => {
            // FAST_ZERO needs no care: the Store contract has no zeroing slower than a write.
            let mode = if request.flags & flag::NO_HOLE != 0 {
                ZeroMode::KeepAllocated
            } else {
                ZeroMode::Unmap
            };
            store.write_zeroes(id, offset, length, mode, durability).await.map(nothing)
        }
        Command::BlockStatus => {
            let most = cost.saturating_sub(REPLY_COST) / EXTENT_COST;
            let limit =
                if request.flags & flag::REQ_ONE != 0 { 1 } else { most.clamp(1, EXTENTS_MAX) };
            store.extents(id, offset, length, limit as usize).await.map(Content::Extents)
        }
        Command::Disconnect => unreachable!("a goodbye is no job"),
    };
    Outcome { result: result.map_err(refusal), request, range, cost }
}
