//! What was read from the transport and not yet decoded.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::AsyncRead;

use crate::Disconnect;

/// Large, so that many small requests arrive by one system call. Pages that a quiet client
/// never fills are never touched.
const INPUT_BYTES: usize = 256 << 10;

/// A fixed buffer that is filled at one end and emptied at the other.
pub(crate) struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Input { buffer: vec![0; INPUT_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// What is there to decode.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The first `N` bytes, if that many are there.
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

    /// Free space, at most `limit` bytes of it; never empty unless the buffer is full.
    fn space(&mut self, limit: usize) -> &mut [u8] {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let end = self.buffer.len().min(self.end + limit);
        &mut self.buffer[self.end..end]
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
        let count = ready!(Pin::new(transport).poll_read(cx, space))?;
        self.end += count;
        Poll::Ready(Ok(count))
    }

    /// Reads straight into `payload`, and what follows it, at most `limit` bytes, into this
    /// buffer, which must be empty. Returns how many bytes of the payload came, and whether the
    /// stream goes on.
    pub(crate) fn poll_fill_past(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncRead + Unpin),
        payload: &mut [u8],
        limit: usize,
    ) -> Poll<io::Result<(usize, bool)>> {
        assert!(self.bytes().is_empty(), "buffered bytes come before those of the transport");
        let wanted = payload.len();
        let slices = &mut [IoSliceMut::new(payload), IoSliceMut::new(self.space(limit))];
        let count = ready!(Pin::new(transport).poll_read_vectored(cx, slices))?;
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
        assert!(count <= self.buffer.len() / 2, "{count} bytes never fit the input buffer");
        while self.bytes().len() < count {
            if self.start + count > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let read = poll_fn(|cx| self.poll_fill(cx, transport, INPUT_BYTES))
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
