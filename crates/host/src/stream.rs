//! A connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown as Ends, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

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

    /// Sends small messages at once, since replies are what clients wait for.
    pub(crate) fn tcp(socket: Async<TcpStream>) -> io::Result<Self> {
        socket.get_ref().set_nodelay(true)?;
        Ok(Stream { socket: Rc::new(Socket::Tcp(socket)) })
    }

    /// Ends the connection in both directions, whatever handles there are: reads return the end.
    pub fn disconnect(&self) {
        // Fails only if the other side was faster.
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
