//! An in-memory stream in both directions, which delivers in pieces as small as one likes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_lite::{AsyncRead, AsyncWrite};

struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// Bytes that one call moves at most.
    step: usize,
    writer_gone: bool,
    reader_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

/// One end of a two-way stream.
pub struct Duplex {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
}

/// A stream that holds `capacity` bytes in each direction, and moves `step` at most at a time.
pub fn duplex(capacity: usize, step: usize) -> (Duplex, Duplex) {
    lopsided(capacity, capacity, step)
}

/// As [`duplex`], with a capacity for what the first end sends, and for what it receives.
pub fn lopsided(sent: usize, received: usize, step: usize) -> (Duplex, Duplex) {
    let pipe = |capacity| {
        Rc::new(RefCell::new(Pipe {
            bytes: VecDeque::new(),
            capacity,
            step,
            writer_gone: false,
            reader_gone: false,
            reader: None,
            writer: None,
        }))
    };
    let (sent, received) = (pipe(sent), pipe(received));
    (
        Duplex { incoming: received.clone(), outgoing: sent.clone() },
        Duplex { incoming: sent, outgoing: received },
    )
}

impl Duplex {
    /// Ends what this end sends; it can still receive.
    pub fn close_sending(&self) {
        let mut pipe = self.outgoing.borrow_mut();
        pipe.writer_gone = true;
        wake(&mut pipe.reader);
    }

    /// Bytes sent to this end and not yet received.
    pub fn waiting(&self) -> usize {
        self.incoming.borrow().bytes.len()
    }

    /// Bytes sent by this end and not yet received.
    pub fn unreceived(&self) -> usize {
        self.outgoing.borrow().bytes.len()
    }

    /// Takes all that was sent to this end so far.
    pub fn take_waiting(&self) -> Vec<u8> {
        let mut pipe = self.incoming.borrow_mut();
        wake(&mut pipe.writer);
        pipe.bytes.drain(..).collect()
    }

    /// Sends bytes, whatever the capacity.
    pub fn push(&self, bytes: &[u8]) {
        let mut pipe = self.outgoing.borrow_mut();
        pipe.bytes.extend(bytes);
        wake(&mut pipe.reader);
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.close_sending();
        let mut pipe = self.incoming.borrow_mut();
        pipe.reader_gone = true;
        wake(&mut pipe.writer);
    }
}

impl AsyncRead for Duplex {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_vectored(cx, &mut [IoSliceMut::new(buffer)])
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.incoming.borrow_mut();
        if pipe.bytes.is_empty() && !pipe.writer_gone {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut count = 0;
        for buffer in buffers {
            let some = buffer.len().min(pipe.bytes.len()).min(pipe.step - count);
            for (byte, read) in buffer.iter_mut().zip(pipe.bytes.drain(..some)) {
                *byte = read;
            }
            count += some;
        }
        wake(&mut pipe.writer);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.outgoing.borrow_mut();
        if pipe.reader_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut room = pipe.capacity.saturating_sub(pipe.bytes.len()).min(pipe.step);
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = room;
        for buffer in buffers {
            let some = buffer.len().min(room);
            pipe.bytes.extend(&buffer[..some]);
            room -= some;
        }
        wake(&mut pipe.reader);
        Poll::Ready(Ok(before - room))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close_sending();
        Poll::Ready(Ok(()))
    }
}
