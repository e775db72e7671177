//! Feeds a connection whatever bytes a client might send.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mjolnir_nbd::protocol::{ClientFlags, ClientOption, OptionHeader, Request};
use mjolnir_nbd::{Disconnect, Options, Served, serve};

use super::memory::MemoryStore;
use super::pipe::duplex;

/// Size of each volume that [`drive`] serves: small, so that what it holds stays small.
pub const SIZE: u64 = 64 << 10;
/// What one connection may hold, for [`drive`].
pub const BYTES_IN_FLIGHT_MAX: u64 = 1 << 20;
/// What the stream to the client holds, for [`drive`].
pub const STREAM_BYTES: usize = 64 << 10;

/// Runs a connection on a new store with a client that sends `bytes` (from its flags on),
/// reads all replies, and closes. Panics if the connection does not come to an end.
pub fn drive(bytes: &[u8]) -> Result<Served, Disconnect> {
    let store = MemoryStore::with_default(SIZE);
    store.add("default@monday", SIZE, true);
    let options = Options {
        requests_in_flight_max: 64,
        bytes_in_flight_max: BYTES_IN_FLIGHT_MAX,
        ..Options::default()
    };
    let (near, far) = duplex(STREAM_BYTES, usize::MAX);
    near.push(bytes);
    near.close_sending();
    let mut server = pin!(serve(&store, far, &options));
    let mut cx = Context::from_waker(Waker::noop());
    // Every poll takes a request or moves part of a reply, of which no request has more than two
    // volumes' worth.
    for _ in 0..1000 + bytes.len() {
        if let Poll::Ready(end) = server.as_mut().poll(&mut cx) {
            return end;
        }
        near.take_waiting();
    }
    panic!("a connection that sent {} bytes and closed does not end", bytes.len());
}

/// Decodes `bytes` as every message of a client.
pub fn decode(bytes: &[u8]) {
    for option in 0..13 {
        let _ = std::hint::black_box(ClientOption::decode(option, bytes));
    }
    if let Some(bytes) = bytes.first_chunk() {
        let _ = std::hint::black_box(ClientFlags::decode(bytes));
    }
    if let Some(bytes) = bytes.first_chunk() {
        let _ = std::hint::black_box(OptionHeader::decode(bytes));
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(request) = Request::decode(bytes)
    {
        assert_eq!(request.encode(), *bytes);
    }
}
