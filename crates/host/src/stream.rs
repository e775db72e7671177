//! A connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown as Ends, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// A connection to a client. Clones are handles of one connection, so that one task may read
/// while another writes (one of each at a time). Closing the writing side ends the whole
/// connection in that direction; dropping the last handle ends it.
#[derive(Clone, Debug)]
pub struct Stream {
    socket: Rc<Socket>,
}

#[derive(Debug)]
enum Socket {
    Unix(Async<UnixStream>),
    Tcp(Async<TcpStream>),
}

impl Stream {
    pub(crate) fn unix(socket: Async<UnixStream>) -> Self {
        Stream { socket: Rc::new(Socket::Unix(socket)) }
    }

    /// Sends small messages at once, since clients wait for replies. Detects within two minutes
    /// that an idle client is gone without a close. Leaves a client that reads nothing alone: it
    /// may be a paused virtual machine.
    pub(crate) fn tcp(socket: Async<TcpStream>) -> io::Result<Self> {
        socket.get_ref().set_nodelay(true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(&socket, 6)?;
        Ok(Stream { socket: Rc::new(Socket::Tcp(socket)) })
    }

    /// Whether the peer has closed the connection in both directions, or is gone. A peer that
    /// closed only its sending side may still wait for an answer.
    pub fn is_hung_up(&self) -> bool {
        let mut polled = [match &*self.socket {
            Socket::Unix(socket) => PollFd::new(socket, PollFlags::empty()),
            Socket::Tcp(socket) => PollFd::new(socket, PollFlags::empty()),
        }];
        let gone = PollFlags::HUP | PollFlags::ERR;
        poll(&mut polled, Some(&Timespec::default())).is_ok()
            && polled[0].revents().intersects(gone)
    }

    /// Ends the connection in both directions for all handles: reads return the end.
    pub fn disconnect(&self) {
        // Fails only if the peer was faster.
        let _ = match &*self.socket {
            Socket::Unix(socket) => socket.get_ref().shutdown(Ends::Both),
            Socket::Tcp(socket) => socket.get_ref().shutdown(Ends::Both),
        };
    }
}

/// Calls a method of the socket, through the `&Async` that reads and writes without `&mut`.
macro_rules! forward {
    ($stream:expr, $socket:ident => $call:expr) => {
        match &*$stream.socket {
            Socket::Unix(socket) => {
                let mut $socket = socket;
                $call
            }
            Socket::Tcp(socket) => {
                let mut $socket = socket;
                $call
            }
        }
    };
}

/// For TLS, whose library reads and writes by itself, and reports when it must wait for the socket.
#[cfg(feature = "tls")]
impl Stream {
    /// Reads the available bytes, or fails with [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &*self.socket {
            Socket::Unix(socket) => io::Read::read(&mut socket.get_ref(), buffer),
            Socket::Tcp(socket) => io::Read::read(&mut socket.get_ref(), buffer),
        }
    }

    /// Writes as many bytes as have room, or fails with [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.socket {
            Socket::Unix(socket) => io::Write::write(&mut socket.get_ref(), bytes),
            Socket::Tcp(socket) => io::Write::write(&mut socket.get_ref(), bytes),
        }
    }

    /// Waits until reading is worth another try.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self.socket {
            Socket::Unix(socket) => socket.poll_readable(context),
            Socket::Tcp(socket) => socket.poll_readable(context),
        }
    }

    /// Waits until writing is worth another try.
    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self.socket {
            Socket::Unix(socket) => socket.poll_writable(context),
            Socket::Tcp(socket) => socket.poll_writable(context),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, socket => Pin::new(&mut socket).poll_read(context, buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, socket => Pin::new(&mut socket).poll_read_vectored(context, buffers))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, socket => Pin::new(&mut socket).poll_write(context, buffer))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, socket => Pin::new(&mut socket).poll_write_vectored(context, buffers))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, socket => Pin::new(&mut socket).poll_flush(context))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, socket => Pin::new(&mut socket).poll_close(context))
    }
}
