//! Turns a client's bytes into requests with their payloads, or pieces of payloads.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_io::AsyncRead;
use mjolnir_buffer::{AlignedBuf, Buffers};
use mjolnir_units::BLOCK_SIZE;

use crate::allowance::Room;
use crate::execute::{Job, Part, Pieces, REPLY_COST, Refusal, check, cost, end_of, payload_bytes};
use crate::input::Input;
use crate::protocol::{Command, PAYLOAD_SKIP_BYTES_MAX, Request};
use crate::{Disconnect, Export};

/// Payloads from this length on are read straight to their final place, and the input buffer does
/// not take the beginning of the next payload.
const LARGE_BYTES: usize = 32 << 10;
/// Bytes to read ahead of a request after a large one.
const AHEAD_OF_LARGE_BYTES: usize = 4096;
/// The longest piece of a write: the next piece arrives while this one is written.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Takes requests out of a stream of bytes. A write that is long, or exceeds the room, is taken in
/// pieces as it arrives, and a read in pieces as room comes. Pieces end at block boundaries.
pub(crate) struct Receiver {
    input: Input,
    buffers: Buffers,
    state: State,
    lately_large: bool,
}

enum State {
    /// A request comes next.
    Request,
    /// A request waits for memory.
    Waiting(Request, Command),
    /// A write's payload comes next, or a piece of it, and waits for memory.
    Write(Write),
    /// A piece of a payload is arriving; the number is the bytes present.
    Payload(Write, AlignedBuf, usize),
    /// The rest of a failed write's payload is being skipped: this many bytes.
    Skipping(Request, Rc<Pieces>, u64),
    /// A refusal waits for memory for its reply.
    Refused(Request, Refusal),
    /// The rest of a read, from this offset on, waits for the piece before it, and for memory. The
    /// next request waits for the last piece, too.
    Read(Request, u64),
    /// No more requests come.
    Ended(End),
}

/// A write being taken.
struct Write {
    request: Request,
    /// The end of the part taken so far.
    at: u64,
    /// The outcome of that part, if it was a piece.
    pieces: Option<Rc<Pieces>>,
}

/// Why no more requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client disconnected by request.
    Goodbye,
    /// The stream ended between requests.
    Closed,
    /// The stream ended within a request.
    Severed,
    /// This side stopped listening.
    Stopped,
}

/// An item taken out of the stream.
pub(crate) enum Taken {
    Job(Job),
    Refused(Request, Refusal),
}

/// The piece of `range` to handle next within `room`; `None` if waiting for more room is better.
fn piece(command: Command, range: Range<u64>, room: Room, most: u64) -> Option<Range<u64>> {
    let up_to = |bytes: u64| {
        let end = range.start + bytes;
        // The first block boundary behind the start is at most a block away.
        range.start..if end < range.end { end / BLOCK_SIZE * BLOCK_SIZE } else { range.end }
    };
    let wanted = up_to(most.max(BLOCK_SIZE));
    if cost(command, &wanted) <= room.bytes {
        return Some(wanted);
    }
    if !room.is_idle {
        return None;
    }
    let mut bytes = room.bytes / BLOCK_SIZE * BLOCK_SIZE;
    while bytes > BLOCK_SIZE && cost(command, &up_to(bytes)) > room.bytes {
        bytes -= BLOCK_SIZE;
    }
    Some(up_to(bytes.max(BLOCK_SIZE)))
}

impl Receiver {
    pub(crate) fn new(input: Input, buffers: Buffers) -> Self {
        Receiver { input, buffers, state: State::Request, lately_large: false }
    }

    pub(crate) fn ended(&self) -> Option<End> {
        if let State::Ended(end) = self.state { Some(end) } else { None }
    }

    /// Whether the client is within a request.
    pub(crate) fn is_receiving(&self) -> bool {
        match &self.state {
            State::Request => !self.input.bytes().is_empty(),
            State::Payload(..) | State::Skipping(..) => true,
            State::Write(write) => write.pieces.is_some(),
            State::Waiting(..) | State::Refused(..) | State::Read(..) | State::Ended(_) => false,
        }
    }

    /// Whether a request waits for memory.
    pub(crate) fn wants_room(&self) -> bool {
        matches!(
            self.state,
            State::Waiting(..) | State::Write(_) | State::Refused(..) | State::Read(..)
        )
    }

    /// Bytes set aside for a payload that has not arrived completely.
    pub(crate) fn arriving_bytes(&self) -> u64 {
        match &self.state {
            State::Payload(_, payload, _) => payload_bytes(payload.len() as u64),
            _ => 0,
        }
    }

    /// Bytes of memory for undecoded input.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.input.held() as u64
    }

    /// Returns memory that is not needed until the next read.
    pub(crate) fn rest(&mut self) {
        self.input.rest();
    }

    /// Ends a read after a failed piece.
    pub(crate) fn end_read(&mut self) {
        if let State::Read(..) = self.state {
            self.state = State::Request;
        }
    }

    /// Stops taking requests. Forgets an incomplete request, except its pieces already taken.
    pub(crate) fn stop(&mut self) {
        if self.ended().is_none() {
            self.state = State::Ended(End::Stopped);
        }
    }

    /// The next request among the bytes read so far, or the next piece of one, if there is `room` for it.
    pub(crate) fn take(
        &mut self,
        export: &Export,
        room: Room,
    ) -> Result<Option<Taken>, Disconnect> {
        loop {
            match &mut self.state {
                State::Request => {
                    let Some(bytes) = self.input.peek() else { return Ok(None) };
                    let request = Request::decode(bytes).map_err(|malformed| {
                        Disconnect::protocol(format!(
                            "{malformed}, so the connection is out of step"
                        ))
                    })?;
                    self.input.consume(Request::BYTES);
                    let payload = request.payload_bytes();
                    self.state = match check(&request, export) {
                        Ok(Command::Disconnect) => State::Ended(End::Goodbye),
                        Ok(Command::Write) if payload > 0 => {
                            State::Write(Write { request, at: request.offset, pieces: None })
                        }
                        Ok(command) => State::Waiting(request, command),
                        Err(_) if payload > PAYLOAD_SKIP_BYTES_MAX => {
                            return Err(Disconnect::protocol(format!(
                                "the client announced a write of {} bytes",
                                request.length
                            )));
                        }
                        Err(refusal) => {
                            let bytes = u64::from(payload);
                            State::Skipping(request, Pieces::refused(bytes, refusal), bytes)
                        }
                    };
                }
                State::Waiting(request, command) => {
                    let (request, command) = (*request, *command);
                    let range = request.offset..end_of(&request);
                    let mut cost = cost(command, &range);
                    self.lately_large = false;
                    if cost > room.bytes {
                        if !room.is_idle {
                            return Ok(None);
                        }
                        if command == Command::Read {
                            self.state = State::Read(request, range.start);
                            continue;
                        }
                        // A reply may have fewer extents.
                        cost = room.bytes;
                    }
                    self.state = State::Request;
                    let (payload, part) = (Bytes::new(), Part::All);
                    let job = Job { request, command, range, payload, cost, part };
                    return Ok(Some(Taken::Job(job)));
                }
                State::Read(request, at) => {
                    let (request, left) = (*request, *at..end_of(request));
                    // A piece of the read is under way, and no other request may come before the
                    // next piece.
                    if room.is_busy {
                        return Ok(None);
                    }
                    if left.is_empty() {
                        self.state = State::Request;
                        continue;
                    }
                    let Some(range) = piece(Command::Read, left, room, PIECE_BYTES_MAX) else {
                        return Ok(None);
                    };
                    self.state = State::Read(request, range.end);
                    let (payload, part) = (Bytes::new(), Part::OfRead);
                    let cost = cost(Command::Read, &range);
                    let job = Job { request, command: Command::Read, range, payload, cost, part };
                    return Ok(Some(Taken::Job(job)));
                }
                State::Write(write) => {
                    let end = end_of(&write.request);
                    if let Some(pieces) = write.pieces.take_if(|pieces| pieces.failed()) {
                        self.state = State::Skipping(write.request, pieces, end - write.at);
                        continue;
                    }
                    let most = PIECE_BYTES_MAX.min(room.arriving);
                    let Some(range) = piece(Command::Write, write.at..end, room, most) else {
                        return Ok(None);
                    };
                    let length = (range.end - range.start) as usize;
                    self.lately_large = write.request.length as usize >= LARGE_BYTES;
                    let mut payload = self.buffers.take(length);
                    let present = self.input.bytes().len().min(length);
                    payload.as_mut()[..present].copy_from_slice(&self.input.bytes()[..present]);
                    self.input.consume(present);
                    let State::Write(write) = std::mem::replace(&mut self.state, State::Request)
                    else {
                        unreachable!("matched above")
                    };
                    self.state = State::Payload(write, payload, present);
                }
                State::Payload(_, payload, filled) => {
                    if *filled < payload.len() {
                        return Ok(None);
                    }
                    let State::Payload(mut write, payload, _) =
                        std::mem::replace(&mut self.state, State::Request)
                    else {
                        unreachable!("matched above")
                    };
                    let (request, command) = (write.request, Command::Write);
                    let range = write.at..write.at + payload.len() as u64;
                    let all = request.offset..end_of(&request);
                    let part = if range == all {
                        Part::All
                    } else {
                        let pieces = || Pieces::of(all.end - all.start);
                        Part::OfWrite(write.pieces.get_or_insert_with(pieces).clone())
                    };
                    if range.end < all.end {
                        write.at = range.end;
                        self.state = State::Write(write);
                    }
                    let (payload, cost) = (payload.freeze(), cost(command, &range));
                    let job = Job { request, command, range, payload, cost, part };
                    return Ok(Some(Taken::Job(job)));
                }
                State::Skipping(request, pieces, left) => {
                    let present = (self.input.bytes().len() as u64).min(*left);
                    self.input.consume(present as usize);
                    *left -= present;
                    // The pieces under way end by themselves; the last to end sends the reply.
                    let ended = pieces.end(present);
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = match ended {
                        Some(Err(refusal)) => State::Refused(*request, refusal),
                        _ => State::Request,
                    };
                }
                State::Refused(..) => {
                    if room.bytes < REPLY_COST {
                        return Ok(None);
                    }
                    let State::Refused(request, refusal) =
                        std::mem::replace(&mut self.state, State::Request)
                    else {
                        unreachable!("matched above")
                    };
                    return Ok(Some(Taken::Refused(request, refusal)));
                }
                State::Ended(_) => return Ok(None),
            }
        }
    }

    /// Whether more input could complete a request. If not, the connection does not read the
    /// transport, which holds the client back.
    pub(crate) fn wants_input(&self) -> bool {
        match self.state {
            // Complete requests not taken yet come first.
            State::Request => self.input.bytes().len() < Request::BYTES,
            State::Payload(..) | State::Skipping(..) => true,
            State::Waiting(..)
            | State::Write(_)
            | State::Refused(..)
            | State::Read(..)
            | State::Ended(_) => false,
        }
    }

    /// Reads from the transport once, at most `ahead` bytes beyond the payloads. The end of the
    /// stream becomes the end of this receiver.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncRead + Unpin),
        ahead: usize,
    ) -> Poll<io::Result<()>> {
        let goes_on = match &mut self.state {
            State::Payload(write, payload, filled) => {
                let is_last = write.at + payload.len() as u64 == end_of(&write.request);
                let limit = match payload.len() >= LARGE_BYTES {
                    // The rest of the payload goes to its own memory.
                    _ if !is_last => 0,
                    true => Request::BYTES,
                    false => ahead,
                };
                let rest = &mut payload.as_mut()[*filled..];
                let (count, goes_on) =
                    ready!(self.input.poll_fill_past(cx, transport, rest, limit))?;
                *filled += count;
                goes_on
            }
            State::Request => {
                let limit = if self.lately_large { ahead.min(AHEAD_OF_LARGE_BYTES) } else { ahead };
                ready!(self.input.poll_fill(cx, transport, limit))? > 0
            }
            State::Skipping(..) => ready!(self.input.poll_fill(cx, transport, ahead))? > 0,
            State::Waiting(..)
            | State::Write(_)
            | State::Refused(..)
            | State::Read(..)
            | State::Ended(_) => {
                return Poll::Ready(Ok(()));
            }
        };
        if !goes_on {
            let end = if self.is_receiving() { End::Severed } else { End::Closed };
            self.state = State::Ended(end);
        }
        Poll::Ready(Ok(()))
    }
}
