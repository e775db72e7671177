//! The transmission phase: requests in, replies out, many at a time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::stream::{FuturesUnordered, StreamExt};
use mjolnir_store::Store;

use crate::allowance::Share;
use crate::execute::{Content, Job, Outcome, execute};
use crate::input::{INPUT_BYTES, INPUT_BYTES_MIN, Input};
use crate::output::Output;
use crate::receive::{End, Receiver, Taken};
use crate::reply::{push_refusal, push_reply};
use crate::signal::Signal;
use crate::stats::add;
use crate::{Disconnect, Export, Options, Served, Stats};

/// Times around the loop before other tasks of the thread get their turn.
const ROUNDS: usize = 4;
/// Pieces of replies that may wait for a client that does not read them.
const PIECES_MAX: usize = 4096;

/// A connection after its negotiation. Run it with [`transmit`].
pub struct Session<T> {
    pub(crate) transport: T,
    pub(crate) input: Box<Input>,
    pub(crate) output: Output,
    pub(crate) export: Export,
    pub(crate) options: Box<Options>,
    pub(crate) stats: Rc<Stats>,
}

impl<T> Session<T> {
    /// The client's export.
    pub fn export(&self) -> &Export {
        &self.export
    }

    /// The connection's counters, to be watched while it runs.
    pub fn stats(&self) -> Rc<Stats> {
        self.stats.clone()
    }
}

/// Answers requests until the client disconnects or `stop` completes.
///
/// Once `stop` completes, takes no more requests, but finishes and answers those in flight.
/// [`std::future::pending`] is a `stop` that never comes. Dropping this future ends the connection
/// at once; requests in flight are then done, undone, or done in part.
///
/// # Errors
///
/// Every other end: see [`DisconnectKind`](crate::DisconnectKind).
pub async fn transmit<S, T>(
    store: &S,
    session: Session<T>,
    stop: impl Future<Output = ()>,
) -> Result<Served, Disconnect>
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Session { transport, input, output, export, options, stats } = session;
    let mut stop = pin!(stop);
    let start = |job| execute(store, &export, job);
    let mut connection = Connection {
        transport,
        receiver: Receiver::new(*input, options.buffers.clone()),
        output,
        in_flight: FuturesUnordered::new(),
        readable: Signal::new(),
        writable: Signal::new(),
        reserved: 0,
        share: Share::of(options.allowance.clone()),
        gone: None,
        export: &export,
        options: &options,
        stats: &stats,
    };
    let end = poll_fn(|cx| {
        if connection.receiver.ended().is_none() && stop.as_mut().poll(cx).is_ready() {
            connection.receiver.stop();
        }
        connection.poll(cx, &start)
    })
    .await?;
    match end {
        End::Goodbye | End::Stopped => {
            // Sends TLS's closing message; the client may be gone already.
            let _ = poll_fn(|cx| Pin::new(&mut connection.transport).poll_close(cx)).await;
            drop(connection);
            Ok(Served {
                export: Some(export.target.name),
                requests: stats.requests.get(),
                bytes_read: stats.bytes_read.get(),
                bytes_written: stats.bytes_written.get(),
            })
        }
        End::Closed => Err(Disconnect::vanished("transmission, between requests")),
        End::Severed => Err(Disconnect::vanished("transmission, within a request")),
    }
}

struct Connection<'a, T, F> {
    transport: T,
    receiver: Receiver,
    output: Output,
    in_flight: FuturesUnordered<F>,
    readable: Signal,
    writable: Signal,
    /// Memory set aside for requests in flight, in bytes. Bytes queued in `output` count, too.
    reserved: u64,
    /// The share of the server's allowance for both, as of the last request taken or answered.
    share: Share,
    /// Why the connection can no longer write to the client or read from it. Requests sent before
    /// are done nevertheless: the client may have disconnected without waiting for replies.
    gone: Option<Disconnect>,
    export: &'a Export,
    options: &'a Options,
    stats: &'a Stats,
}

impl<T, F> Connection<'_, T, F>
where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Outcome>,
{
    /// Ready once no more requests come and all are answered, or done if the client is gone.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: &impl Fn(Job) -> F,
    ) -> Poll<Result<End, Disconnect>> {
        for _ in 0..ROUNDS {
            let mut progress = self.take_requests(cx, start)?;
            while let Poll::Ready(Some(outcome)) = self.in_flight.poll_next_unpin(cx) {
                self.finish(outcome)?;
                progress = true;
            }
            // These replies freed memory that held-back requests may need.
            progress |= self.poll_write(cx);
            if self.receiver.wants_input() && self.has_place() {
                let (receiver, transport) = (&mut self.receiver, &mut self.transport);
                let ahead =
                    INPUT_BYTES_MIN.max(self.share.input_room().min(INPUT_BYTES as u64) as usize);
                match self.readable.poll(cx, |cx| receiver.poll_read(cx, transport, ahead)) {
                    Poll::Ready(Ok(())) => progress = true,
                    Poll::Pending => {}
                    // As for a client that left with unread replies. Requests in flight are done
                    // nevertheless.
                    Poll::Ready(Err(why)) => {
                        self.gone.get_or_insert_with(|| Disconnect::transport("reading from", why));
                        receiver.stop();
                        progress = true;
                    }
                }
            }
            self.share.set(self.held() + self.receiver.input_bytes());
            self.stats.in_flight.set(self.in_flight.len());
            self.stats.receiving.set(self.receiver.is_receiving());
            if self.in_flight.is_empty() && self.output.is_idle() {
                let end = self.receiver.ended();
                if (end.is_some() || !progress)
                    && let Some(gone) = self.gone.take()
                {
                    return Poll::Ready(Err(gone));
                }
                if let Some(end) = end {
                    return Poll::Ready(Ok(end));
                }
            }
            if !progress {
                self.receiver.rest();
                self.share.set(self.held() + self.receiver.input_bytes());
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether one more request of any kind may be taken.
    fn has_place(&self) -> bool {
        self.in_flight.len() < self.options.requests_in_flight_max.max(1)
            && self.output.pieces() < PIECES_MAX
            && self.output.held() <= self.options.bytes_in_flight_max
    }

    /// Memory that the connection holds besides its input, in bytes.
    fn held(&self) -> u64 {
        self.reserved + self.receiver.arriving_bytes() + self.output.held()
    }

    fn take_requests(
        &mut self,
        cx: &mut Context<'_>,
        start: &impl Fn(Job) -> F,
    ) -> Result<bool, Disconnect> {
        let mut progress = false;
        while self.has_place() {
            let used = self.held();
            self.share.set(used + self.receiver.input_bytes());
            let mut room = self.share.room(used, self.options.bytes_in_flight_max);
            room.is_busy = !self.in_flight.is_empty();
            let Some(taken) = self.receiver.take(self.export, room)? else {
                if self.receiver.wants_room() {
                    self.share.wait(cx.waker());
                }
                break;
            };
            progress = true;
            match taken {
                Taken::Job(job) => {
                    add(&self.stats.bytes_written, job.payload.len() as u64);
                    self.reserved += job.cost;
                    self.in_flight.push(start(job));
                }
                Taken::Refused(request, refusal) => {
                    add(&self.stats.requests, 1);
                    push_refusal(&mut self.output, self.export, &request, &refusal);
                }
            }
        }
        Ok(progress)
    }

    fn finish(&mut self, outcome: Outcome) -> Result<(), Disconnect> {
        self.reserved -= outcome.cost;
        if let Ok(Content::Data(_)) = &outcome.result {
            add(&self.stats.bytes_read, outcome.range.end - outcome.range.start);
        }
        if push_reply(&mut self.output, self.export, outcome)? {
            add(&self.stats.requests, 1);
            // A failed read goes no further.
            self.receiver.end_read();
        }
        Ok(())
    }

    /// Writes as much as the transport takes; returns whether that was anything.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.gone.is_some() {
            self.output = Output::default();
        }
        if self.output.is_idle() {
            return false;
        }
        let before = self.output.bytes();
        let (output, transport) = (&mut self.output, &mut self.transport);
        match self.writable.poll(cx, |cx| output.poll_drain(cx, transport)) {
            Poll::Ready(Ok(())) => true,
            Poll::Pending => self.output.bytes() < before,
            Poll::Ready(Err(why)) => {
                self.gone = Some(Disconnect::transport("writing to", why));
                self.output = Output::default();
                true
            }
        }
    }
}
