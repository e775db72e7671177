//! The control socket of a served store: requests in, answers out, a line each.
//!
//! What a request announces to write follows it once the server has asked for it. Lines are
//! bounded, and so is what follows them: by what one atomic vector takes, one client at a time. So is
//! the time that a client may take to send either or to read an answer. A client that stalls holds a
//! connection, for that long perhaps the turn to send a payload, and nothing else. One that asks for nothing
//! keeps nobody out who does: it is hung up on where there are too many.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use futures_lite::future::or;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use mjolnir_device::Runtime;
use mjolnir_host::{HostRuntime, Listener, Stream};
use mjolnir_store::{Error, ErrorKind, Maintenance, Member};

use crate::handle::{Circumstances, handle};
use crate::payload;
use crate::request::{Message, Refusal, Request, Response};
use crate::waiting::{Waiting, WaitingRoom};

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Connections at once. One more takes the place of one that asks for nothing.
const CONNECTIONS_MAX: usize = 64;
/// Requests that are carried out at once; more are refused. Fewer than there may be connections, so that
/// one that asks is heard.
const REQUESTS_MAX: usize = 48;
/// How long a client may take to read a line.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(250);
/// How long to wait when no more connections can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers clients, for ever; one that takes longer than `request_time` to send a request is hung
/// up on. Dropping this closes the socket; requests under way go on.
pub async fn answer_all<S: Maintenance + Member>(
    listener: Listener,
    store: S,
    circumstances: Circumstances,
    runtime: HostRuntime,
    request_time: Duration,
) {
    let (connections, requests) = (Cell::new(0), Cell::new(0));
    let (waiting, payload) = (Rc::default(), async_channel::bounded(1));
    let control = Control {
        store,
        circumstances,
        runtime,
        request_time,
        connections,
        requests,
        waiting,
        payload,
    };
    let control = Rc::new(control);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely; this frees one.
            control.waiting.end_first();
            control.runtime.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let count = control.connections.get() - control.waiting.ending();
        if count >= CONNECTIONS_MAX && !control.waiting.end_first() {
            // All of them are being answered, and some do not read that.
            continue;
        }
        control.connections.set(control.connections.get() + 1);
        let waiting = control.waiting.clone().enter(false);
        let control = control.clone();
        control.runtime.clone().spawn(async move {
            // How a client leaves concerns nobody.
            let _ = control.converse(stream, waiting).await;
            control.connections.set(control.connections.get() - 1);
        });
    }
}

/// What all conversations share.
struct Control<S> {
    store: S,
    circumstances: Circumstances,
    runtime: HostRuntime,
    request_time: Duration,
    /// How many there are.
    connections: Cell<usize>,
    /// How many requests are being carried out.
    requests: Cell<usize>,
    /// Connections that ask for nothing.
    waiting: Rc<WaitingRoom>,
    /// Full while one of them sends a payload or has it written: the memory of one is enough.
    payload: (Sender<()>, Receiver<()>),
}

/// Why a conversation ends; the client is gone, too slow, or makes no sense.
struct Gone;

impl<S: Maintenance + Member> Control<S> {
    async fn converse(&self, mut stream: Stream, mut waiting: Waiting) -> Result<(), Gone> {
        let mut buffer = Vec::new();
        loop {
            let line = read_line(&mut stream, &mut buffer);
            let ended = async {
                waiting.is_to_end().await;
                Err(Gone)
            };
            let line = or(line, or(ended, timeout(&self.runtime, self.request_time))).await?;
            drop(waiting);
            self.answer(&mut stream, &mut buffer, &line).await?;
            waiting = self.waiting.clone().enter(true);
        }
    }

    /// Carries out a request, unless there are too many, and answers it.
    async fn answer(
        &self,
        stream: &mut Stream,
        buffer: &mut Vec<u8>,
        line: &[u8],
    ) -> Result<(), Gone> {
        let refused = |kind, message| Err(Refusal::from(Error::new(kind, message)));
        let mut counted = None;
        let outcome = match serde_json::from_slice::<Request>(line) {
            Ok(_) if self.requests.get() >= REQUESTS_MAX => refused(
                ErrorKind::Busy,
                format!(
                    "the server carries out {REQUESTS_MAX} commands already, and no more at once; try \
                     again once one of them has ended"
                ),
            ),
            Ok(request) => {
                counted = Some(Counted::one_more_of(&self.requests));
                self.take(stream, buffer, request).await?
            }
            Err(error) => refused(
                ErrorKind::Invalid,
                format!("the request is none that this version knows: {error}"),
            ),
        };
        send(stream, &Message::from(outcome), &self.runtime).await?;
        drop(counted);
        Ok(())
    }

    /// Receives what a request announces, if it does, and carries it out.
    async fn take(
        &self,
        stream: &mut Stream,
        ahead: &mut Vec<u8>,
        mut request: Request,
    ) -> Result<Result<Response, Refusal>, Gone> {
        let announced = match payload::admit(&mut request, self.store.atomic_limit().1) {
            Ok(announced) => announced,
            Err(error) => return Ok(Err(Refusal::from(error))),
        };
        if announced == 0 {
            return self.attend(stream, request).await;
        }
        let turn = Turn::come(&self.payload).await;
        send(stream, &Message::Send {}, &self.runtime).await?;
        let payload =
            async { payload::receive(&mut request, ahead, stream).await.map_err(|_| Gone) };
        or(payload, timeout(&self.runtime, self.request_time)).await?;
        let outcome = self.attend(stream, request).await;
        drop(turn);
        outcome
    }

    /// Carries out a request, and tells its progress meanwhile. If the client leaves, so do we, unless it
    /// asked for what is to be done all the same.
    async fn attend(
        &self,
        stream: &mut Stream,
        request: Request,
    ) -> Result<Result<Response, Refusal>, Gone> {
        let (part, ends_with_caller) = (Cell::new(None), request.ends_with_caller());
        let progress = |done| part.set(Some(done));
        let work = async {
            let outcome = handle(&self.store, &self.circumstances, request, &progress).await;
            Ok(outcome.map_err(Refusal::from))
        };
        let tell = async {
            loop {
                self.runtime.sleep(PROGRESS_PERIOD).await;
                if ends_with_caller && stream.is_hung_up() {
                    return Err(Gone);
                }
                if let Some(part) = part.take() {
                    send(stream, &Message::Progress(part), &self.runtime).await?;
                }
            }
        };
        or(work, tell).await
    }
}

/// One that is counted until this is dropped.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn one_more_of(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The right to fill memory with a payload; given back when dropped.
struct Turn<'a>(&'a Receiver<()>);

impl<'a> Turn<'a> {
    async fn come((sender, receiver): &'a (Sender<()>, Receiver<()>)) -> Self {
        // Fails only once the receiver is gone, which is beside it.
        let _ = sender.send(()).await;
        Turn(receiver)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _ = self.0.try_recv();
    }
}

/// The next line, without its end. What follows it stays in `buffer`.
async fn read_line(stream: &mut Stream, buffer: &mut Vec<u8>) -> Result<Vec<u8>, Gone> {
    let mut searched = 0;
    loop {
        if let Some(found) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
            let rest = buffer.split_off(searched + found + 1);
            let mut line = std::mem::replace(buffer, rest);
            line.pop();
            return Ok(line);
        }
        searched = buffer.len();
        if searched > REQUEST_BYTES_MAX {
            return Err(Gone);
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return Err(Gone),
            Ok(count) => buffer.extend_from_slice(&piece[..count]),
        }
    }
}

async fn send(stream: &mut Stream, message: &Message, runtime: &HostRuntime) -> Result<(), Gone> {
    let mut line = serde_json::to_vec(message).map_err(|_| Gone)?;
    line.push(b'\n');
    let write = async { stream.write_all(&line).await.map_err(|_| Gone) };
    or(write, timeout(runtime, ANSWER_TIME)).await
}

async fn timeout<T>(runtime: &HostRuntime, limit: Duration) -> Result<T, Gone> {
    runtime.sleep(limit).await;
    Err(Gone)
}
