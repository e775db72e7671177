//! The server side of the NBD protocol, over the Store contract and any byte stream.
//!
//! Every volume is an export and every snapshot a read-only one, called `volume@snapshot`; the
//! empty name is the store's default volume. One connection is one future: [`serve`] runs it from
//! greeting to end, or [`negotiate`] and [`transmit`] do so in two parts, so that a caller can
//! limit the time of the first. No task is spawned: a connection handles its requests concurrently
//! inside its future, and answers them in the order in which they finish.
//!
//! Spoken: fixed newstyle negotiation (`LIST`, `INFO`, `GO`, `EXPORT_NAME`, `ABORT`,
//! `STRUCTURED_REPLY`, `LIST`/`SET_META_CONTEXT`, `STARTTLS` where the caller offers TLS);
//! structured replies with sparse reads and `base:allocation` block status; `READ`, `WRITE`,
//! `FLUSH`, `TRIM`, `CACHE`, `WRITE_ZEROES`, FUA; several connections to one export.
//!
//! The protocol lets a server promise space; this server does not: a store that writes a log takes
//! new space for each write. `NO_HOLE` reserves none, with or without `FAST_ZERO`, and a rewrite of
//! a range that `base:allocation` calls allocated can fail with `ENOSPC`.
//!
//! A client that cannot be served is told why in the reply to its request ([`turn_away`] if there
//! are too many clients), wherever the protocol has a reply: `EXPORT_NAME` has none.
//!
//! **Imports** `units`, `store`, and `buffer`: payloads are received into block-aligned memory, so
//! that a store need not copy them.
//!
//! **Leaves out** sockets, clocks, threads and TLS itself: the caller brings a transport that is
//! connected (and secured), and time limits. Extended headers and resize are not spoken.
//!
//! Invariants:
//! * The memory of a connection is bounded, whatever the client sends or does not read:
//!   [`Options::bytes_in_flight_max`] (and a quarter) of payloads and replies. Beyond it, the
//!   connection stops reading the transport. All connections together have [`Options::allowance`]
//!   for these and for waiting input.
//! * A read or write of any length makes progress within its connection's memory: it is handled in
//!   pieces that end at block boundaries. A write is answered when all its pieces have ended; a
//!   received piece does not wait for later pieces.
//! * Bytes from the client are decoded only in [`protocol`], which neither panics nor allocates.
//! * A reply is encoded only once its whole content is at hand, so an error never truncates one. A
//!   read longer than the room for it is answered in pieces. If a later piece fails, an error chunk
//!   reports it. Replies without error chunks (simple replies, `DF`) end the connection instead, as
//!   the protocol demands.

mod allowance;
mod disconnect;
mod errno;
mod execute;
mod export;
mod input;
mod negotiation;
mod options;
mod output;
pub mod protocol;
mod receive;
mod reply;
mod signal;
mod stats;
mod transmission;
mod wire;

use futures_io::{AsyncRead, AsyncWrite};
use mjolnir_store::Store;

pub use allowance::Allowance;
pub use disconnect::{Disconnect, DisconnectKind, Served};
pub use export::Export;
pub use negotiation::{Handshake, Negotiated, negotiate, negotiate_secured};
pub use options::{Options, Tls};
pub use stats::Stats;
pub use transmission::{Session, transmit};
pub use wire::turn_away;

/// Runs one connection to its end: negotiation, then transmission until the client disconnects.
///
/// For transports that need no upgrade to TLS: a client that asks for one (which happens only if
/// `options` offers TLS) is disconnected. Callers that upgrade, limit the time of the
/// negotiation, or stop connections in good order call [`negotiate`] and [`transmit`].
///
/// # Errors
///
/// Every disorderly end: see [`DisconnectKind`].
pub async fn serve<S, T>(store: &S, transport: T, options: &Options) -> Result<Served, Disconnect>
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin,
{
    match negotiate(store, transport, options).await? {
        Negotiated::Ready(session) => transmit(store, session, std::future::pending()).await,
        Negotiated::Ended => Ok(Served::default()),
        Negotiated::StartTls { .. } => Err(Disconnect::new(
            DisconnectKind::Refused,
            "the client asked to start TLS, and this listener cannot upgrade a connection",
        )),
    }
}
