//! TLS for clients: with certificates, or with pre-shared keys.
//!
//! **Why OpenSSL, and nothing of Rust's own.** Clients of NBD use both: certificates, and
//! pre-shared keys (what `psktool` writes, and libnbd and QEMU read). rustls 0.23 knows pre-shared
//! keys only to resume sessions, so a server could not offer them; a second library beside it would
//! mean two sets of protocol code to keep safe for one door. OpenSSL does both, its fixes arrive
//! with the system's, and its binding drives a socket that does not block, so nothing here is
//! unsafe. It is a feature (`tls`) outside the default build, and in this module alone.
//!
//! Invariants:
//! * TLS 1.2 at least, 1.3 where the client can; forward secrecy always; no renegotiation, no
//!   resumption, no compression.
//! * Secrets are read from files that only their owner can access, and never printed.
//! * Nothing is read from a connection before its handshake begins, and the caller hands over a
//!   stream without bytes read ahead: so bytes received in the clear never count as secured.

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod context;
#[cfg(feature = "tls")]
mod secrets;
#[cfg(feature = "tls")]
mod stream;
#[cfg(all(test, feature = "tls"))]
mod tests;

#[cfg(not(feature = "tls"))]
pub use absent::{Tls, TlsStream};
#[cfg(feature = "tls")]
pub use context::Tls;
#[cfg(feature = "tls")]
pub use stream::TlsStream;

/// Whether this program was built with TLS.
pub const TLS_BUILT_IN: bool = cfg!(feature = "tls");

/// How a server and its clients know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsKeys {
    /// By certificates, in files that are named as libnbd, QEMU and nbdkit name them.
    Certificates {
        /// Holds `server-cert.pem` (with the certificates between it and the authority, if there
        /// are any) and `server-key.pem`.
        folder: PathBuf,
        /// Admit only clients whose certificate was signed by the authority in `ca-cert.pem`, and
        /// not revoked by `ca-crl.pem` if that is there.
        verify_clients: bool,
    },
    /// By keys known to both: a file of `identity:key` lines, keys in hexadecimal, as `psktool`
    /// writes it.
    Psk {
        /// The file.
        file: PathBuf,
    },
}
