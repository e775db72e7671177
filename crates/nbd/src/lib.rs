//! The server side of the NBD protocol, over the Store contract and any byte stream.
//!
//! Every volume is an export and every snapshot a read-only one, called `volume@snapshot`; the
//! empty name is the store's default volume. One connection is one future: [`serve`] runs it from
//! greeting to end, or [`negotiate`] and [`transmit`] do so in two parts, so that a caller can
//! limit the time that the first may take. Nothing is spawned: the requests of a connection are
//! handled concurrently inside its future, and answered in the order in which they finish.
//!
//! Spoken: fixed newstyle negotiation (`LIST`, `INFO`, `GO`, `EXPORT_NAME`, `ABORT`,
//! `STRUCTURED_REPLY`, `LIST`/`SET_META_CONTEXT`, `STARTTLS` where the caller offers TLS);
//! structured replies with sparse reads and `base:allocation` block status; `READ`, `WRITE`,
//! `FLUSH`, `TRIM`, `CACHE`, `WRITE_ZEROES`, FUA; several connections to one export.
//!
//! Where the protocol has a server promise space, this one does not: a store that writes a log takes new
//! space for each write. `NO_HOLE` keeps none, with `FAST_ZERO` or without, and what `base:allocation` calls
//! allocated can meet `ENOSPC` when it is written again.
//!
//! Clients that cannot be served are told why, in a reply to what they ask ([`turn_away`] for those that are too
//! many), wherever the protocol has one: `EXPORT_NAME` has none.
//!
//! **Imports** `units`, `store`, and `buffer`: payloads are received into block-aligned memory, so
//! that a store need not copy them.
//!
//! **Leaves out** sockets, clocks, threads and TLS itself: the caller brings a transport that is
//! connected (and secured), and time limits. Extended headers and resize are not spoken.
//!
//! Invariants:
//! * What a connection holds in memory is bounded, whatever the client sends or does not read:
//!   [`Options::bytes_in_flight_max`] (and a quarter) of payloads and replies. Beyond it the transport is not
//!   read on. All connections together have [`Options::allowance`] for these and for input that waits.
//! * A read or write of any length makes progress within what its connection may have at any time: it is
//!   handled in pieces that end at block boundaries. A write is answered once all of them have ended, and
//!   no piece that came is held back for those that did not.
//! * Bytes from the client are decoded only in [`protocol`], which neither panics nor allocates.
//! * A reply is encoded only once its whole content is at hand, so an error never cuts one short. A
//!   read that is longer than there is room for is told in pieces. If one fails behind others, an error
//!   chunk says so; where there is none (simple replies, `DF`) the connection ends, as the protocol has it.

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
/// Every end but an orderly one: see [`DisconnectKind`].
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
