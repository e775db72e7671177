//! From bytes of the client to requests with their payloads.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_io::AsyncRead;
use mjolnir_buffer::{AlignedBuf, Buffers};

use crate::execute::{Job, REPLY_COST, Refusal, check, cost, payload_bytes};
use crate::input::Input;
use crate::protocol::{Command, PAYLOAD_SKIP_BYTES_MAX, Request};
use crate::{Disconnect, Export};

/// Payloads from this length on are read straight to where they stay, and the input buffer is
/// kept from swallowing the beginning of the next one.
const LARGE_BYTES: usize = 32 << 10;
/// How much to read ahead of a request when the last one was large.
const AHEAD_OF_LARGE_BYTES: usize = 4096;

/// Takes requests out of a stream of bytes.
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
    /// A write's payload is arriving; so many bytes of it are there.
    Payload(Request, AlignedBuf, usize),
    /// The payload of a refused write is passing; so many bytes are to come.
    Skipping(Request, Refusal, u64),
    /// A refusal waits for memory for its reply.
    Refused(Request, Refusal),
    /// Nothing comes any more.
    Ended(End),
}

/// Why nothing comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said goodbye.
    Goodbye,
    /// The stream ended between requests.
    Closed,
    /// The stream ended within a request.
    Severed,
    /// This side stopped listening.
    Stopped,
}

/// What was taken out of the stream.
pub(crate) enum Taken {
    Job(Job),
    Refused(Request, Refusal),
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
        match self.state {
            State::Request => !self.input.bytes().is_empty(),
            State::Payload(..) | State::Skipping(..) => true,
            State::Waiting(..) | State::Refused(..) | State::Ended(_) => false,
        }
    }

    /// Bytes that are set aside for a payload that has not come as a whole.
    pub(crate) fn arriving_bytes(&self) -> u64 {
        match &self.state {
            State::Payload(_, payload, _) => payload_bytes(payload.len() as u64),
            _ => 0,
        }
    }

    /// Takes nothing any more; a request that is not complete is forgotten.
    pub(crate) fn stop(&mut self) {
        if self.ended().is_none() {
            self.state = State::Ended(End::Stopped);
        }
    }

    /// The next request among the bytes read so far. `has_room` says whether so many bytes can
    /// be set aside for it; while they cannot, there is none.
    pub(crate) fn take(
        &mut self,
        export: &Export,
        has_room: impl Fn(u64) -> bool,
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
                    self.state = match check(&request, export) {
                        Ok(Command::Disconnect) => State::Ended(End::Goodbye),
                        Ok(command) => State::Waiting(request, command),
                        Err(_) if request.payload_bytes() > PAYLOAD_SKIP_BYTES_MAX => {
                            return Err(Disconnect::protocol(format!(
                                "the client announced a write of {} bytes",
                                request.length
                            )));
                        }
                        Err(refusal) => {
                            State::Skipping(request, refusal, u64::from(request.payload_bytes()))
                        }
                    };
                }
                State::Waiting(request, command) => {
                    if !has_room(cost(request, *command)) {
                        return Ok(None);
                    }
                    let (request, command) = (*request, *command);
                    let length = request.payload_bytes() as usize;
                    self.lately_large = length >= LARGE_BYTES;
                    if length == 0 {
                        self.state = State::Request;
                        let payload = Bytes::new();
                        return Ok(Some(Taken::Job(Job { request, command, payload })));
                    }
                    let mut payload = self.buffers.take(length);
                    let present = self.input.bytes().len().min(length);
                    payload.as_mut()[..present].copy_from_slice(&self.input.bytes()[..present]);
                    self.input.consume(present);
                    self.state = State::Payload(request, payload, present);
                }
                State::Payload(_, payload, filled) => {
                    if *filled < payload.len() {
                        return Ok(None);
                    }
                    let State::Payload(request, payload, _) =
                        std::mem::replace(&mut self.state, State::Request)
                    else {
                        unreachable!("matched above")
                    };
                    let payload = payload.freeze();
                    let command = Command::Write;
                    return Ok(Some(Taken::Job(Job { request, command, payload })));
                }
                State::Skipping(_, _, left) => {
                    let present = (self.input.bytes().len() as u64).min(*left);
                    self.input.consume(present as usize);
                    *left -= present;
                    if *left > 0 {
                        return Ok(None);
                    }
                    let State::Skipping(request, refusal, _) =
                        std::mem::replace(&mut self.state, State::Request)
                    else {
                        unreachable!("matched above")
                    };
                    self.state = State::Refused(request, refusal);
                }
                State::Refused(..) => {
                    if !has_room(REPLY_COST) {
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

    /// Whether reading on could bring a request. While it cannot, the transport is left alone,
    /// which is what holds a client back.
    pub(crate) fn wants_input(&self) -> bool {
        match self.state {
            // Complete requests that were not taken yet come first.
            State::Request => self.input.bytes().len() < Request::BYTES,
            State::Payload(..) | State::Skipping(..) => true,
            State::Waiting(..) | State::Refused(..) | State::Ended(_) => false,
        }
    }

    /// Reads from the transport once. The end of the stream becomes the end of this receiver.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncRead + Unpin),
    ) -> Poll<io::Result<()>> {
        let all = usize::MAX >> 1;
        let goes_on = match &mut self.state {
            State::Payload(_, payload, filled) => {
                let limit = if payload.len() >= LARGE_BYTES { Request::BYTES } else { all };
                let rest = &mut payload.as_mut()[*filled..];
                let (count, goes_on) =
                    ready!(self.input.poll_fill_past(cx, transport, rest, limit))?;
                *filled += count;
                goes_on
            }
            State::Request => {
                let limit = if self.lately_large { AHEAD_OF_LARGE_BYTES } else { all };
                ready!(self.input.poll_fill(cx, transport, limit))? > 0
            }
            State::Skipping(..) => ready!(self.input.poll_fill(cx, transport, all))? > 0,
            State::Waiting(..) | State::Refused(..) | State::Ended(_) => {
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
