//! A server's TLS settings, loaded before any client connects.

use std::fmt;
use std::io;

use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslSessionCacheMode,
    SslVersion,
};

use super::secrets::PskFile;
use super::{TlsKeys, TlsStream, certificates, certificates::internal};
use crate::{HostError, Stream};

/// Suites of TLS 1.2 with certificates; those of 1.3 are all good.
const CERTIFICATE_SUITES: &str = "ECDHE+AESGCM:ECDHE+CHACHA20";
/// Suites of TLS 1.2 with pre-shared keys: the only one with forward secrecy and a modern cipher.
const PSK_SUITES: &str = "ECDHE-PSK-CHACHA20-POLY1305";

/// The server's side of TLS. Clones are handles of one.
#[derive(Clone)]
pub struct Tls {
    context: SslContext,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the keys, once: renewed keys need a restart of the server.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::HostErrorKind::Invalid) if a file has the wrong content, or if others may
    /// access a secret; [`Io`](crate::HostErrorKind::Io) if one cannot be read.
    pub fn load(keys: &TlsKeys) -> Result<Self, HostError> {
        let mut context = SslContext::builder(SslMethod::tls_server()).map_err(internal)?;
        restrict(&mut context, keys).map_err(internal)?;
        match keys {
            TlsKeys::Certificates { folder, verify_clients } => {
                certificates::show(&mut context, folder)?;
                if *verify_clients {
                    certificates::demand(&mut context, folder)?;
                }
            }
            TlsKeys::Psk { file } => {
                let keys = PskFile::load(file)?;
                // 0 means that the identity is unknown.
                context.set_psk_server_callback(move |_, identity, space| {
                    let key = identity.and_then(|identity| keys.key(identity)).unwrap_or_default();
                    let Some(space) = space.get_mut(..key.len()) else { return Ok(0) };
                    space.copy_from_slice(key);
                    Ok(key.len())
                });
            }
        }
        Ok(Tls { context: context.build() })
    }

    /// Secures a connection without bytes read ahead. Takes as long as the client does: the caller
    /// limits the time by dropping the future.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the client left meanwhile;
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the two do not agree, or do not
    /// trust each other; else the socket's error.
    pub async fn accept(&self, stream: Stream) -> io::Result<TlsStream> {
        let ssl = Ssl::new(&self.context).map_err(io::Error::other)?;
        TlsStream::accept(ssl, stream).await
    }
}

fn restrict(
    context: &mut SslContextBuilder,
    keys: &TlsKeys,
) -> Result<(), openssl::error::ErrorStack> {
    context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    context.set_cipher_list(match keys {
        TlsKeys::Certificates { .. } => CERTIFICATE_SUITES,
        TlsKeys::Psk { .. } => PSK_SUITES,
    })?;
    context.set_options(
        SslOptions::NO_RENEGOTIATION
            | SslOptions::NO_COMPRESSION
            | SslOptions::NO_TICKET
            | SslOptions::CIPHER_SERVER_PREFERENCE,
    );
    context.set_num_tickets(0)?;
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    context.set_mode(SslMode::RELEASE_BUFFERS | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    context.set_read_ahead(true);
    Ok(())
}
