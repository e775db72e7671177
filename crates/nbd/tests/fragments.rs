//! However a client's bytes are cut up on their way, the server says the same.

mod support;

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mjolnir_nbd::protocol::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, option};
use mjolnir_nbd::{Options, serve};
use support::client::{FLAGS, info_data, long, meta_data, number, option_bytes, request_bytes};
use support::memory::MemoryStore;
use support::pipe::{Duplex, duplex};
use support::run;

/// All that a client says in a session with a bit of everything.
fn session() -> Vec<u8> {
    let mut bytes = FLAGS.to_be_bytes().to_vec();
    bytes.extend(option_bytes(option::LIST, &[]));
    bytes.extend(option_bytes(99, b"unknown"));
    bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    bytes.extend(option_bytes(option::SET_META_CONTEXT, &meta_data("", &["base:allocation"])));
    bytes.extend(option_bytes(option::GO, &info_data("", &[1, 2, 3])));
    for (flags, command, offset, length) in [
        (0, 1, 4090, 20),
        (1, 1, 8192, 0),
        (0, 1, 1 << 30, 9), // past the end: its payload is skipped
        (0, 1, 0, 300),
        (0, 0, 0, 5000),
        (0, 9, 0, 0),
        (0, 6, 100, 100),
        (4, 0, 90, 4200),
        (8, 7, 0, 65536),
        (0, 3, 0, 0),
        (0, 4, 0, 4096),
        (0, 7, 0, 65536),
    ] {
        bytes.extend(request_bytes(flags, command, bytes.len() as u64, offset, length));
        if command == 1 {
            bytes.extend((0..length).map(|index| index as u8 ^ 0x5a));
        }
    }
    bytes.extend(request_bytes(0, 2, 0, 0, 0));
    bytes
}

/// What a server said, with its replies to requests in the order of the requests: a refusal may
/// overtake what takes longer.
fn in_order(mut said: Vec<u8>) -> Vec<u8> {
    let is_reply = |at: &usize| {
        let magic = said[*at..*at + 4].try_into().map(u32::from_be_bytes);
        matches!(magic, Ok(SIMPLE_REPLY_MAGIC | STRUCTURED_REPLY_MAGIC))
    };
    let mut at = (0..said.len() - 4).find(is_reply).expect("requests are answered");
    let mut replies = Vec::new();
    let mut rest = said.split_off(at);
    while !rest.is_empty() {
        let simple = rest[..4] == SIMPLE_REPLY_MAGIC.to_be_bytes();
        at = if simple { 16 } else { 20 + number(&rest[16..20]) as usize };
        let after = rest.split_off(at);
        replies.push((long(&rest[8..16]), rest));
        rest = after;
    }
    replies.sort_by_key(|(cookie, _)| *cookie);
    said.extend(replies.into_iter().flat_map(|(_, reply)| reply));
    said
}

/// What a new server says to bytes that arrive in these parts, each once the server waits.
fn said(parts: &[&[u8]]) -> Vec<u8> {
    let store = MemoryStore::with_default(65536);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let options = Options::default();
    let mut server = pin!(serve(&store, far, &options));
    let mut cx = Context::from_waker(Waker::noop());
    for part in parts {
        assert!(server.as_mut().poll(&mut cx).is_pending(), "the client has more to say");
        near.push(part);
    }
    loop {
        match server.as_mut().poll(&mut cx) {
            Poll::Ready(end) => break assert_eq!(end.unwrap().requests, 12),
            Poll::Pending => assert!(near.unreceived() > 0 || near.waiting() > 0),
        }
    }
    in_order(near.take_waiting())
}

#[test]
fn a_session_cut_anywhere_is_the_same_session() {
    let session = session();
    let whole = said(&[&session]);
    assert!(whole.len() > 5000);
    for at in 1..session.len() {
        let (first, second) = session.split_at(at);
        assert!(said(&[first, second]) == whole, "cut at {at} of {}", session.len());
    }
}

#[test]
fn a_session_that_trickles_is_the_same_session() {
    let session = session();
    let whole = said(&[&session]);
    for length in [1, 2, 3, 7, 13, 27, 28, 29, 100] {
        let parts: Vec<&[u8]> = session.chunks(length).collect();
        assert!(said(&parts) == whole, "in parts of {length}");
    }
}

#[test]
fn a_transport_that_takes_a_byte_at_a_time_loses_none() {
    let session = session();
    let whole = said(&[&session]);
    let heard = Cell::new(Vec::new());
    for (capacity, step) in [(1, 1), (2, 1), (100, 3), (1000, 1000)] {
        let store = MemoryStore::with_default(65536);
        let (near, far) = duplex(capacity, step);
        let options = Options::default();
        let client = async {
            let near = near;
            near.push(&session);
            heard.set(listen(near).await);
        };
        run(futures_lite::future::zip(serve(&store, far, &options), client)).0.unwrap();
        assert!(in_order(heard.take()) == whole, "capacity {capacity}, step {step}");
    }
}

async fn listen(mut near: Duplex) -> Vec<u8> {
    let mut heard = Vec::new();
    futures_lite::AsyncReadExt::read_to_end(&mut near, &mut heard).await.unwrap();
    heard
}
