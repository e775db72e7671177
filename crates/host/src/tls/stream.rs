//! A connection that TLS secures.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures_io::{AsyncRead, AsyncWrite};
use openssl::ssl::{Error, ErrorCode, Ssl, SslStream};
use openssl::x509::X509VerifyResult;

use crate::Stream;

/// Bytes sealed at once: the most in a TLS record.
const RECORD_BYTES: usize = 16 << 10;
/// The most bytes read at once. The library continues by itself while it reads records without
/// data, and a client could send these for ever.
const READ_BYTES: usize = 2 * RECORD_BYTES;

/// A connection that TLS secures, on the server's side.
pub struct TlsStream {
    ssl: SslStream<Wire>,
    /// Bytes to be sealed and sent; those before `sent` are gone.
    pending: Vec<u8>,
    sent: usize,
    wakers: Arc<Wakers>,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsStream({})", self.ssl.ssl().version_str())
    }
}

impl TlsStream {
    /// Does the handshake.
    pub(super) async fn accept(ssl: Ssl, stream: Stream) -> io::Result<Self> {
        let ssl = SslStream::new(ssl, Wire { stream, left: 0 }).map_err(io::Error::other)?;
        let (pending, sent, wakers) = (Vec::new(), 0, Arc::default());
        let mut this = TlsStream { ssl, pending, sent, wakers };
        match poll_fn(|cx| this.poll_tls(cx, Side::Reading, SslStream::accept)).await? {
            Some(()) => Ok(this),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Repeats an operation until it is done or must wait for the socket. `None` is the end of the
    /// stream.
    ///
    /// Reader and writer may each have to wait for either direction of the socket, and a socket
    /// remembers one waker per direction: so it gets a waker that wakes both.
    fn poll_tls<R>(
        &mut self,
        cx: &mut Context<'_>,
        side: Side,
        mut act: impl FnMut(&mut SslStream<Wire>) -> Result<R, Error>,
    ) -> Poll<io::Result<Option<R>>> {
        self.ssl.get_mut().left = READ_BYTES;
        loop {
            let error = match act(&mut self.ssl) {
                Ok(value) => return Poll::Ready(Ok(Some(value))),
                Err(error) => error,
            };
            let waits_to_read = match error.code() {
                ErrorCode::WANT_READ => true,
                ErrorCode::WANT_WRITE => false,
                ErrorCode::ZERO_RETURN => return Poll::Ready(Ok(None)),
                // The socket's stream ended without TLS's closing message. This is treated as a
                // normal end: NBD itself shows whether the end was in order.
                ErrorCode::SYSCALL if error.io_error().is_none() => return Poll::Ready(Ok(None)),
                _ => return Poll::Ready(Err(self.explain(error))),
            };
            if waits_to_read && self.ssl.get_ref().left == 0 {
                // Yields to other tasks, then continues.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.wakers.keep(side, cx.waker());
            let waker = Waker::from(self.wakers.clone());
            let cx = &mut Context::from_waker(&waker);
            let stream = &self.ssl.get_ref().stream;
            ready!(match waits_to_read {
                true => stream.poll_readable(cx),
                false => stream.poll_writable(cx),
            })?;
        }
    }

    /// Returns a socket's error unchanged, and a protocol's error in the library's words, without
    /// its place in the library.
    fn explain(&self, error: Error) -> io::Error {
        let denied = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
        let error = match error.into_io_error() {
            Ok(of_socket) => return of_socket,
            Err(error) => error,
        };
        let stack = error.ssl_error();
        let reason = stack.and_then(|stack| stack.errors().first()?.reason());
        let verified = self.ssl.ssl().verify_result();
        match reason {
            Some(reason) if verified != X509VerifyResult::OK => {
                denied(&format!("{reason}: {}", verified.error_string()))
            }
            Some(reason) => denied(reason),
            None => denied("the protocol was broken"),
        }
    }

    /// Seals and sends the pending bytes. Ready once the socket has all of them.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.pending.len() {
            // Taken, so that `self` can be borrowed; it comes back on every way out.
            let pending = std::mem::take(&mut self.pending);
            let start = self.sent;
            let outcome = self.poll_tls(cx, Side::Writing, |ssl| ssl.ssl_write(&pending[start..]));
            self.pending = pending;
            match ready!(outcome)? {
                Some(count) => self.sent += count,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        self.pending.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let count = ready!(self.poll_tls(cx, Side::Reading, |ssl| ssl.ssl_read(buffer)))?;
        Poll::Ready(Ok(count.unwrap_or(0)))
    }
}

/// Takes bytes over and seals them by the record. Bytes taken wait at most until the next flush.
impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.pending.len() >= RECORD_BYTES || self.sent > 0 {
            ready!(self.poll_send(cx))?;
        }
        let mut taken = 0;
        for slice in slices {
            let room = RECORD_BYTES - self.pending.len();
            let some = &slice[..room.min(slice.len())];
            self.pending.extend_from_slice(some);
            taken += some.len();
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    /// Says goodbye, and waits for none.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        ready!(self.poll_tls(cx, Side::Writing, |ssl| ssl.shutdown().map(|_| ())))?;
        Pin::new(&mut self.ssl.get_mut().stream).poll_close(cx)
    }
}

/// The socket as the library sees it: it never blocks.
struct Wire {
    stream: Stream,
    /// Bytes that may be read before others get their turn.
    left: usize,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left);
        if most == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.stream.try_read(&mut buffer[..most])?;
        self.left -= count;
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Who waits.
#[derive(Clone, Copy)]
enum Side {
    Reading,
    Writing,
}

/// One waker for both sides.
#[derive(Default)]
struct Wakers {
    sides: Mutex<[Option<Waker>; 2]>,
}

impl Wakers {
    fn keep(&self, side: Side, waker: &Waker) {
        // A waker is whole, whoever panicked.
        let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut sides[side as usize] {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let sides = std::mem::take(&mut *self.sides.lock().unwrap_or_else(PoisonError::into_inner));
        sides.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use async_io::Async;

    use super::*;

    #[test]
    fn no_more_is_read_in_one_go_than_is_left() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(&[7; 100]).unwrap();
        let mut wire = Wire { stream: Stream::unix(Async::new(near).unwrap()), left: 60 };
        let mut buffer = [0; 40];
        assert_eq!((wire.read(&mut buffer).unwrap(), wire.left), (40, 20));
        assert_eq!((wire.read(&mut buffer).unwrap(), wire.left), (20, 0));
        assert_eq!(wire.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        wire.left = 60;
        assert_eq!(wire.read(&mut buffer).unwrap(), 40);
    }
}
