//! Stand-ins for a build without TLS: types without values.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use super::TlsKeys;
use crate::{HostError, HostErrorKind, Stream};

/// The server's side of TLS. This build has none, so the type has no value.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

/// A connection that TLS secures. This build has none.
#[derive(Debug)]
pub struct TlsStream(Infallible);

impl Tls {
    /// Refuses, and says how to build with TLS.
    ///
    /// # Errors
    ///
    /// Always [`Invalid`](HostErrorKind::Invalid).
    pub fn load(_: &TlsKeys) -> Result<Self, HostError> {
        Err(HostError::new(
            HostErrorKind::Invalid,
            "this program was built without TLS; build it with `cargo install --path crates/cli \
             --features tls`, which needs OpenSSL's headers (libssl-dev) and pkg-config",
        ))
    }

    /// Secures a connection.
    ///
    /// # Errors
    ///
    /// None: it cannot be called.
    pub async fn accept(&self, _: Stream) -> io::Result<TlsStream> {
        match self.0 {}
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.0 {}
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}
