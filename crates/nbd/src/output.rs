//! Bytes to be written to the transport.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::AsyncWrite;
use mjolnir_store::Payload;
use mjolnir_units::BLOCK_SIZE;

use crate::Disconnect;

/// The source of zeroes.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
/// Pieces gathered by one system call.
const SLICES_MAX: usize = 128;

/// Room kept for heads, in bytes, and for pieces.
const HEADS_KEPT: usize = 8 << 10;
const PIECES_KEPT: usize = 256;

/// A queue of bytes in pieces, gathered into vectored writes. Payload is never copied.
#[derive(Default)]
pub(crate) struct Output {
    pieces: VecDeque<Piece>,
    /// The bytes of all [`Piece::Head`]s, in order; those before `heads_start` are written.
    heads: Vec<u8>,
    heads_start: usize,
    /// Bytes queued.
    bytes: u64,
    /// Whether the transport may still hold back written bytes.
    unflushed: bool,
}

enum Piece {
    /// This many bytes of `heads`.
    Head(usize),
    Data(Payload),
    Zeroes(u64),
}

impl Output {
    /// Bytes queued.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most memory held for the queued bytes: whole blocks are read for parts of them.
    pub(crate) fn held(&self) -> u64 {
        self.bytes + self.pieces.len() as u64 * BLOCK_SIZE
    }

    /// Pieces queued.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Whether all is written, and flushed through the transport.
    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.is_empty() && !self.unflushed
    }

    /// Queues a copy of a few bytes.
    pub(crate) fn push_head(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.heads.extend_from_slice(bytes);
        match self.pieces.back_mut() {
            Some(Piece::Head(length)) => *length += bytes.len(),
            _ => self.pieces.push_back(Piece::Head(bytes.len())),
        }
    }

    /// Queues payload.
    pub(crate) fn push_data(&mut self, bytes: Payload) {
        if !bytes.is_empty() {
            self.bytes += bytes.len() as u64;
            self.pieces.push_back(Piece::Data(bytes));
        }
    }

    /// Queues zeroes.
    pub(crate) fn push_zeroes(&mut self, count: u64) {
        if count > 0 {
            self.bytes += count;
            self.pieces.push_back(Piece::Zeroes(count));
        }
    }

    /// Writes and flushes as much as the transport takes. Ready once all is gone.
    pub(crate) fn poll_drain(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while !self.pieces.is_empty() {
            let written = {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let used = self.gather(&mut slices);
                ready!(Pin::new(&mut *transport).poll_write_vectored(cx, &slices[..used]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.advance(written as u64);
        }
        if self.unflushed {
            ready!(Pin::new(transport).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Fills `slices` with the first pieces; returns how many it used.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut used = 0;
        let mut heads = &self.heads[self.heads_start..];
        for piece in &self.pieces {
            let mut zeroes = 0;
            let slice = match piece {
                Piece::Head(length) => {
                    let (head, rest) = heads.split_at(*length);
                    heads = rest;
                    head
                }
                Piece::Data(bytes) => bytes,
                Piece::Zeroes(count) => {
                    zeroes = *count;
                    &[]
                }
            };
            if !slice.is_empty() {
                slices[used] = IoSlice::new(slice);
                used += 1;
            }
            while zeroes > 0 && used < SLICES_MAX {
                let some = zeroes.min(ZEROES.len() as u64);
                slices[used] = IoSlice::new(&ZEROES[..some as usize]);
                used += 1;
                zeroes -= some;
            }
            if used == SLICES_MAX {
                break;
            }
        }
        used
    }

    /// Forgets the first `count` bytes.
    fn advance(&mut self, mut count: u64) {
        self.bytes -= count;
        while count > 0 {
            let piece = self.pieces.front_mut().expect("no more is written than was queued");
            let (taken, finished) = match piece {
                Piece::Head(length) => {
                    let taken = count.min(*length as u64);
                    *length -= taken as usize;
                    self.heads_start += taken as usize;
                    (taken, *length == 0)
                }
                Piece::Data(bytes) => {
                    let taken = count.min(bytes.len() as u64);
                    bytes.cut(taken as usize..bytes.len());
                    (taken, bytes.is_empty())
                }
                Piece::Zeroes(left) => {
                    let taken = count.min(*left);
                    *left -= taken;
                    (taken, *left == 0)
                }
            };
            if finished {
                self.pieces.pop_front();
            }
            count -= taken;
        }
        if self.heads_start == self.heads.len() {
            self.heads.clear();
            // Frees room that many replies needed and few do not.
            self.heads.shrink_to(HEADS_KEPT);
            self.pieces.shrink_to(PIECES_KEPT);
            self.heads_start = 0;
        } else if self.heads_start > HEADS_KEPT && self.heads_start > self.heads.len() / 2 {
            self.heads.drain(..self.heads_start);
            self.heads_start = 0;
        }
    }

    /// Writes and flushes all that is queued.
    pub(crate) async fn drain(
        &mut self,
        transport: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Disconnect> {
        poll_fn(|cx| self.poll_drain(cx, transport))
            .await
            .map_err(|why| Disconnect::transport("writing to", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes a call, and is not ready every other time.
    struct Narrow {
        taken: Vec<u8>,
        width: usize,
        ready: bool,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let this = self.get_mut();
            this.ready = !this.ready;
            if this.ready {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let count = bytes.len().min(this.width);
            this.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn pieces_leave_in_order_however_little_the_transport_takes() {
        for width in [1, 3, 1000, 1 << 20] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for round in 0..300u32 {
                output.push_head(&round.to_be_bytes());
                output.push_head(b"head");
                output.push_data(vec![round as u8; round as usize].into());
                output.push_zeroes(u64::from(round % 7));
                expected.extend_from_slice(&round.to_be_bytes());
                expected.extend_from_slice(b"head");
                expected.extend_from_slice(&vec![round as u8; round as usize]);
                expected.extend_from_slice(&vec![0; round as usize % 7]);
            }
            output.push_zeroes(200_000);
            expected.resize(expected.len() + 200_000, 0);
            assert_eq!(output.bytes(), expected.len() as u64);
            let mut narrow = Narrow { taken: Vec::new(), width, ready: false };
            futures_lite::future::block_on(output.drain(&mut narrow)).unwrap();
            assert!(narrow.taken == expected, "width {width}");
            assert!(output.is_idle() && output.bytes() == 0);
        }
    }
}
