//! The control socket of a served store: requests in, answers out, a line each.
//!
//! What a request announces to write follows it once the server has asked for it. Lines are bounded
//! (and so is what follows them, by what one atomic vector takes), and so is the time that a client may take to send one or to read an answer,
//! so a client that stalls holds a connection and nothing else.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::or;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use mjolnir_device::Runtime;
use mjolnir_host::{HostEngine, HostRuntime, Listener, Stream};
use mjolnir_store::{Error, ErrorKind, Store};

use crate::handle::{Circumstances, handle};
use crate::payload;
use crate::request::{Message, Refusal, Request, Response};

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Clients at once; more are turned away.
const CLIENTS_MAX: usize = 64;
/// How long a client may take to read a line.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(250);
/// How long to wait when no more connections can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers clients, for ever; one that takes longer than `request_time` to send a request is hung
/// up on. Dropping this closes the socket; requests under way go on.
pub async fn answer_all(
    listener: Listener,
    engine: HostEngine,
    circumstances: Circumstances,
    runtime: HostRuntime,
    request_time: Duration,
) {
    let clients = Rc::new(Cell::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely.
            runtime.sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if clients.get() >= CLIENTS_MAX {
            continue;
        }
        clients.set(clients.get() + 1);
        let (clients, engine) = (clients.clone(), engine.clone());
        let (circumstances, world) = (circumstances.clone(), runtime.clone());
        runtime.spawn(async move {
            // How a client leaves concerns nobody.
            let _ = converse(stream, &engine, &circumstances, &world, request_time).await;
            clients.set(clients.get() - 1);
        });
    }
}

/// Why a conversation ends; the client is gone, too slow, or makes no sense.
struct Gone;

async fn converse(
    mut stream: Stream,
    engine: &HostEngine,
    circumstances: &Circumstances,
    runtime: &HostRuntime,
    request_time: Duration,
) -> Result<(), Gone> {
    let mut buffer = Vec::new();
    loop {
        let line = or(read_line(&mut stream, &mut buffer), timeout(runtime, request_time)).await?;
        let outcome = match serde_json::from_slice::<Request>(&line) {
            Ok(mut request) => match payload::admit(&mut request, engine.atomic_limit().1) {
                Ok(announced) => {
                    if announced > 0 {
                        send(&mut stream, &Message::Send {}, runtime).await?;
                        let payload = async {
                            let come = payload::receive(&mut request, &mut buffer, &mut stream);
                            come.await.map_err(|_| Gone)
                        };
                        or(payload, timeout(runtime, request_time)).await?;
                    }
                    attend(&mut stream, engine, circumstances, request, runtime).await?
                }
                Err(error) => Err(Refusal::from(error)),
            },
            Err(error) => Err(Refusal::from(Error::new(
                ErrorKind::Invalid,
                format!("the request is none that this version knows: {error}"),
            ))),
        };
        send(&mut stream, &Message::from(outcome), runtime).await?;
    }
}

/// Carries out a request, and tells its progress meanwhile. If the client leaves, so do we.
async fn attend(
    stream: &mut Stream,
    engine: &HostEngine,
    circumstances: &Circumstances,
    request: Request,
    runtime: &HostRuntime,
) -> Result<Result<Response, Refusal>, Gone> {
    let part = Cell::new(None);
    let progress = |done| part.set(Some(done));
    let work = async {
        let outcome = handle(engine, circumstances, request, &progress).await;
        Ok(outcome.map_err(Refusal::from))
    };
    let tell = async {
        loop {
            runtime.sleep(PROGRESS_PERIOD).await;
            if let Some(part) = part.take() {
                send(stream, &Message::Progress(part), runtime).await?;
            }
        }
    };
    or(work, tell).await
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
