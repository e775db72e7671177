//! One request, from the store's side.

use std::borrow::Cow;

use bytes::Bytes;
use mjolnir_store::{Chunks, Durability, Error, Extent, Store, ZeroMode};
use mjolnir_units::BLOCK_SIZE;

use crate::Export;
use crate::errno::errno_of;
use crate::protocol::{Command, Errno, PAYLOAD_BYTES_MAX, Request, command_flag as flag};

/// The most extents told in one reply.
const EXTENTS_MAX: usize = 8192;

/// A request that passed [`check`], with its payload.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) command: Command,
    pub(crate) payload: Bytes,
}

/// What a request came to.
pub(crate) struct Outcome {
    pub(crate) request: Request,
    /// The memory that was set aside for it, in bytes.
    pub(crate) cost: u64,
    pub(crate) result: Result<Content, Refusal>,
}

/// What a successful reply carries.
pub(crate) enum Content {
    Nothing,
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

/// What a reply without payload may take, in bytes; more than any error's message does.
pub(crate) const REPLY_COST: u64 = 1024;

/// Memory to set aside for a request until its reply is queued, in bytes.
pub(crate) fn cost(request: &Request, command: Command) -> u64 {
    let end = request.offset + u64::from(request.length);
    let touched = (end.div_ceil(BLOCK_SIZE) - request.offset / BLOCK_SIZE) * BLOCK_SIZE;
    let more = match command {
        Command::Read => touched,
        // Its payload, and each block of which it writes a part as it will be.
        Command::Write => {
            let parts = [request.offset, end].into_iter();
            let parts = parts.filter(|edge| !edge.is_multiple_of(BLOCK_SIZE)).count() as u64;
            payload_bytes(request.length.into()) + touched.min(parts * BLOCK_SIZE)
        }
        Command::BlockStatus => (EXTENTS_MAX * size_of::<Extent>()) as u64,
        _ => 0,
    };
    REPLY_COST + more
}

/// What a payload of so many bytes takes: buffers are of whole blocks.
pub(crate) fn payload_bytes(length: u64) -> u64 {
    length.next_multiple_of(BLOCK_SIZE)
}

/// Refuses what can be refused without asking the store.
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

/// What the protocol calls a request past the end of the export.
fn past_end(command: Command) -> Errno {
    match command {
        Command::Write | Command::WriteZeroes => Errno::NoSpc,
        _ => Errno::Inval,
    }
}

/// Does what the job asks.
pub(crate) async fn execute<S: Store>(store: &S, export: &Export, job: Job) -> Outcome {
    let Job { request, command, payload } = job;
    let (id, offset, length) = (export.target.id, request.offset, u64::from(request.length));
    let durability =
        if request.flags & flag::FUA != 0 { Durability::Durable } else { Durability::Buffered };
    let nothing = |()| Content::Nothing;
    let result = match command {
        Command::Flush => store.flush().await.map(nothing),
        _ if length == 0 => Ok(Content::Nothing),
        Command::Read => store.read(id, offset, length).await.map(Content::Data),
        Command::Write => store.write(id, offset, payload, durability).await.map(nothing),
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
            let limit = if request.flags & flag::REQ_ONE != 0 { 1 } else { EXTENTS_MAX };
            store.extents(id, offset, length, limit).await.map(Content::Extents)
        }
        Command::Disconnect => unreachable!("a goodbye is no job"),
    };
    let refusal = |error: Error| {
        let mut refusal = Refusal::from(error);
        // A volume that shrank since this client was told its size ends earlier for writes, too.
        let is_past_end = || store.info(id).is_ok_and(|now| offset + length > now.size);
        if refusal.errno == Errno::Inval && is_past_end() {
            refusal.errno = past_end(command);
        }
        refusal
    };
    Outcome { request, cost: cost(&request, command), result: result.map_err(refusal) }
}
