//! Bytes read from the transport and not decoded yet.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::AsyncRead;
use mjolnir_buffer::{AlignedBuf, Buffers};

use crate::Disconnect;

/// The most input held. Large, so that many small requests arrive by one system call.
pub(crate) const INPUT_BYTES: usize = 256 << 10;
/// The least room.
pub(crate) const INPUT_BYTES_MIN: usize = 4 << 10;

/// A buffer filled at one end and emptied at the other.
///
/// It takes memory only while it holds bytes: a connection with a quiet client has none, and
/// connections read one after another use the same memory.
pub(crate) struct Input {
    memory: Buffers,
    buffer: Option<AlignedBuf>,
    start: usize,
    end: usize,
}

impl Input {
    /// An empty buffer, which takes its memory from `memory`.
    pub(crate) fn new(memory: Buffers) -> Self {
        Input { memory, buffer: None, start: 0, end: 0 }
    }

    /// The bytes to decode.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.as_ref()[self.start..self.end])
    }

    /// Bytes of memory that the buffer takes.
    pub(crate) fn held(&self) -> usize {
        self.buffer.as_ref().map_or(0, AlignedBuf::len)
    }

    /// The first `N` bytes, if there are that many.
    pub(crate) fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        self.bytes().first_chunk()
    }

    /// Forgets the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "consumed more than was read");
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Returns memory that is not needed until the next read.
    pub(crate) fn rest(&mut self) {
        let needed = (self.end - self.start).next_multiple_of(INPUT_BYTES_MIN);
        // Not for small gains, or each request taken out would move the rest.
        if 2 * needed <= self.held() && self.held() > 0 {
            self.resize(needed);
        }
    }

    /// Moves to a buffer of `bytes` bytes.
    fn resize(&mut self, bytes: usize) {
        let count = self.end - self.start;
        let buffer = (bytes > 0).then(|| {
            let mut buffer = self.memory.take(bytes);
            buffer.as_mut()[..count].copy_from_slice(self.bytes());
            buffer
        });
        self.buffer = buffer;
        (self.start, self.end) = (0, count);
    }

    /// At most `limit` bytes of free space; empty only if the limit is 0 or the buffer is full.
    fn space(&mut self, limit: usize) -> &mut [u8] {
        let (count, held) = (self.end - self.start, self.held());
        let wanted = (count + limit).clamp(INPUT_BYTES_MIN, INPUT_BYTES);
        if held < wanted {
            self.resize(wanted);
        } else if self.end == held {
            let buffer = self.buffer.as_mut().expect("it has an end");
            buffer.as_mut().copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, count);
        }
        let buffer = self.buffer.as_mut().expect("there is one now").as_mut();
        let end = buffer.len().min(self.end + limit);
        &mut buffer[self.end..end]
    }

    /// Reads at most `limit` bytes more; 0 means that the stream ended.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncRead + Unpin),
        limit: usize,
    ) -> Poll<io::Result<usize>> {
        let space = self.space(limit);
        assert!(!space.is_empty(), "reading into a full buffer would look like the stream's end");
        let Poll::Ready(read) = Pin::new(transport).poll_read(cx, space) else {
            self.rest();
            return Poll::Pending;
        };
        let count = read?;
        self.end += count;
        Poll::Ready(Ok(count))
    }

    /// Reads straight into `payload`, and at most `limit` following bytes into this buffer, which
    /// must be empty. Returns how many bytes of the payload came, and whether the stream continues.
    pub(crate) fn poll_fill_past(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncRead + Unpin),
        payload: &mut [u8],
        limit: usize,
    ) -> Poll<io::Result<(usize, bool)>> {
        assert!(self.bytes().is_empty(), "buffered bytes come before those of the transport");
        let wanted = payload.len();
        let past = if limit > 0 { self.space(limit) } else { &mut [] };
        let slices = &mut [IoSliceMut::new(payload), IoSliceMut::new(past)];
        let Poll::Ready(read) = Pin::new(transport).poll_read_vectored(cx, slices) else {
            self.rest();
            return Poll::Pending;
        };
        let count = read?;
        let of_payload = count.min(wanted);
        self.end += count - of_payload;
        Poll::Ready(Ok((of_payload, count > 0)))
    }

    /// Reads until `count` bytes are buffered, which must fit.
    pub(crate) async fn fill(
        &mut self,
        transport: &mut (impl AsyncRead + Unpin),
        count: usize,
        during: &str,
    ) -> Result<(), Disconnect> {
        assert!(count <= INPUT_BYTES, "{count} bytes never fit the input buffer");
        while self.bytes().len() < count {
            let missing = count - self.bytes().len();
            let read = poll_fn(|cx| self.poll_fill(cx, transport, missing.max(INPUT_BYTES_MIN)))
                .await
                .map_err(|why| Disconnect::transport("reading from", why))?;
            if read == 0 {
                return Err(Disconnect::vanished(during));
            }
        }
        Ok(())
    }

    /// Reads `count` bytes and forgets them.
    pub(crate) async fn skip(
        &mut self,
        transport: &mut (impl AsyncRead + Unpin),
        mut count: usize,
        during: &str,
    ) -> Result<(), Disconnect> {
        while count > 0 {
            self.fill(transport, 1, during).await?;
            let present = self.bytes().len().min(count);
            self.consume(present);
            count -= present;
        }
        Ok(())
    }
}
