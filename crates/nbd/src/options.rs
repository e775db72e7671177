//! A server's limits and options.

use mjolnir_buffer::Buffers;

use crate::Allowance;

/// Settings of a connection. [`Options::default`] suits a unix socket. Connections of one server
/// get clones of the same options, and so share [`buffers`](Options::buffers), [`inputs`](Options::inputs)
/// and their [`allowance`](Options::allowance).
#[derive(Clone, Debug)]
pub struct Options {
    /// Offer every export for reading only.
    pub read_only: bool,
    /// The most requests of one connection handled at once; at least 1.
    pub requests_in_flight_max: usize,
    /// The most payload and reply bytes of one connection in memory; at least its allowance's
    /// `each`. A longer request is handled in pieces.
    pub bytes_in_flight_max: u64,
    /// The limit of these bytes, and of undecoded input, for all connections together.
    pub allowance: Allowance,
    /// Whether connections are to be secured.
    pub tls: Tls,
    /// Memory for the payload of writes.
    pub buffers: Buffers,
    /// Memory for clients' bytes until they are decoded.
    pub inputs: Buffers,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            read_only: false,
            requests_in_flight_max: 256,
            bytes_in_flight_max: 64 << 20,
            allowance: Allowance::default(),
            tls: Tls::Off,
            buffers: Buffers::default(),
            inputs: Buffers::default(),
        }
    }
}

/// The server's answer about TLS. The caller upgrades the transport: see
/// [`Negotiated::StartTls`](crate::Negotiated::StartTls).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// The server has no TLS.
    #[default]
    Off,
    /// A client may upgrade.
    Offered,
    /// A client must upgrade before anything else.
    Required,
}
