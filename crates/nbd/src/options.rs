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
    /// The most requests of one connection that are handled at once; at least 1 is taken.
    pub requests_in_flight_max: usize,
    /// The most payload and reply bytes that one connection holds in memory, if that is more than what its
    /// allowance has for each. A request that is longer is handled in pieces.
    pub bytes_in_flight_max: u64,
    /// What all connections together hold of that, and of input that was not decoded yet.
    pub allowance: Allowance,
    /// Whether connections are to be secured.
    pub tls: Tls,
    /// Memory for what clients write.
    pub buffers: Buffers,
    /// Memory for what clients send until it is decoded.
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

/// What to answer a client about TLS. Upgrading the transport is the caller's: see
/// [`Negotiated::StartTls`](crate::Negotiated::StartTls).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// There is none here.
    #[default]
    Off,
    /// A client may upgrade.
    Offered,
    /// A client must upgrade before anything else.
    Required,
}
