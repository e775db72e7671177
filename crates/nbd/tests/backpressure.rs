//! What one client costs is bounded, and paid by that client alone.

mod support;

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_lite::future::{poll_fn, zip};
use futures_lite::{AsyncRead, AsyncWrite};
use mjolnir_nbd::{Allowance, DisconnectKind, Negotiated, Options, negotiate, serve, transmit};
use mjolnir_store::Store;
use support::client::{Client, Reply, request_bytes};
use support::memory::MemoryStore;
use support::pipe::{duplex, lopsided};
use support::{run, run_until_stalled};

const SIZE: u64 = 64 << 20;
/// What is set aside for each reply besides its payload.
const REPLY: u64 = 1024;
/// What each connection may have at least.
const EACH: u64 = 16 << 10;

fn options(requests: usize, bytes: u64) -> Options {
    Options { requests_in_flight_max: requests, bytes_in_flight_max: bytes, ..Options::default() }
}

/// Lets a client send `bytes` to a store that never finishes anything, until nothing moves.
/// Returns how many requests the store was given, of how many bytes, and what was not read.
fn flood(options: &Options, bytes: &[u8]) -> (usize, u64, usize) {
    let store = MemoryStore::with_default(SIZE);
    store.hang.set(true);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let mut client = Client::new(near);
    let stalled = run_until_stalled(zip(serve(&store, far, options), async {
        client.go("", false).await;
        client.stream.push(bytes);
        std::future::pending::<()>().await;
    }));
    assert!(stalled.is_none());
    (store.busy_count_max.get(), store.busy_bytes_max.get(), client.stream.unreceived())
}

fn reads(count: usize, length: u32) -> Vec<u8> {
    (0..count).flat_map(|cookie| request_bytes(0, 0, cookie as u64, 0, length)).collect()
}

fn writes(count: usize, length: u32) -> Vec<u8> {
    let one = [request_bytes(0, 1, 0, 0, length), vec![7; length as usize]].concat();
    one.repeat(count)
}

#[test]
fn requests_in_flight_are_bounded_by_number() {
    for bytes in [reads(20_000, 512), writes(2000, 512)] {
        let (count, _, left) = flood(&options(100, 1 << 30), &bytes);
        assert_eq!(count, 100);
        assert!(left >= bytes.len() - 100 * (28 + 512) - (256 << 10), "{left} not read");
    }
    // A server that is told to handle none handles one.
    assert_eq!(flood(&options(0, 1 << 30), &reads(10, 512)).0, 1);
}

#[test]
fn requests_in_flight_are_bounded_by_memory() {
    for bytes in [reads(1000, 1 << 20), writes(50, 1 << 20)] {
        let (_, busy, left) = flood(&options(1000, (10 << 20) + 10 * REPLY), &bytes);
        assert_eq!(busy, 10 << 20);
        // Neither is the payload of the next write taken in.
        assert!(bytes.len() - left <= (10 << 20) + (256 << 10) + 28 * 1000, "{left} not read");
    }
}

#[test]
fn a_request_larger_than_the_bound_keeps_to_it() {
    for bytes in [reads(10, 8 << 20), writes(3, 8 << 20)] {
        let busy = flood(&options(1000, 1 << 20), &bytes).1;
        assert!((512 << 10..=1 << 20).contains(&busy), "{busy}");
    }
}

#[test]
fn connections_share_an_allowance_and_each_has_a_little_beyond_it() {
    let allowance = Allowance::new((12 << 20) + 12 * REPLY);
    let options = Options { allowance, ..options(1000, (8 << 20) + 8 * REPLY) };
    // One alone has half.
    assert_eq!(flood(&options, &reads(1000, 1 << 20)).1, 6 << 20);
    assert_eq!(options.allowance.taken(), 0, "what it had is given back");

    let store = MemoryStore::with_default(SIZE);
    store.hang.set(true);
    let flooding = |bytes: Vec<u8>| {
        let (near, far) = duplex(usize::MAX, usize::MAX);
        let (store, options) = (&store, &options);
        zip(serve(store, far, options), async move {
            let mut client = Client::new(near);
            client.go("", false).await;
            client.stream.push(&bytes);
            std::future::pending::<()>().await;
        })
    };
    let all = zip(
        flooding(reads(100, 1 << 20)),
        zip(flooding(writes(100, 1 << 20)), flooding(reads(100, 4 << 20))),
    );
    assert!(run_until_stalled(all).is_none());
    // Alone, by their own bound, they would have twice as much.
    let busy = store.busy_bytes_max.get();
    assert!((9 << 20..=(12 << 20) + 12 * REPLY + 3 * EACH).contains(&busy), "{busy}");
    assert_eq!(options.allowance.taken(), 0);
}

#[test]
fn a_client_that_reads_no_replies_is_not_read_from_any_more() {
    for length in [1, 4096, 1 << 20] {
        let store = MemoryStore::with_default(SIZE);
        store.fill(store_id(&store), 0, &[1; 1 << 20]);
        let (near, far) = lopsided(usize::MAX, 1000, usize::MAX);
        let mut client = Client::new(near);
        let options = options(100, 4 << 20);
        let count = 100_000;
        let stalled = run_until_stalled(zip(serve(&store, far, &options), async {
            client.go("", false).await;
            client.stream.push(&reads(count, length));
            std::future::pending::<()>().await;
        }));
        assert!(stalled.is_none());
        let taken = (count * 28 - client.stream.unreceived()) / 28;
        // What fits its buffer unhandled, what fits the bound in replies, and a few.
        let most = (256 << 10) / 28 + ((4 << 20) / (length as usize + 16)).min(4096 + 100) + 100;
        assert!(taken <= most, "{taken} requests of {length} bytes taken, {most} expected");
    }
}

#[test]
fn refusals_that_are_not_read_keep_to_the_allowance_too() {
    let store = MemoryStore::with_default(SIZE);
    let (near, far) = lopsided(usize::MAX, 1000, usize::MAX);
    let mut client = Client::new(near);
    let options = Options { allowance: Allowance::new(256 << 10), ..options(100, 4 << 20) };
    let count = 100_000;
    let stalled = run_until_stalled(zip(serve(&store, far, &options), async {
        client.go("", true).await;
        client.stream.push(&reads(count, u32::MAX));
        std::future::pending::<()>().await;
    }));
    assert!(stalled.is_none());
    let taken = (count * 28 - client.stream.unreceived()) / 28;
    // What fits its buffer unhandled, and half of the allowance in replies of at least 16 bytes.
    let most = (256 << 10) / 28 + (128 << 10) / 16;
    assert!(taken <= most, "{taken} requests taken, {most} expected");
}

fn store_id(store: &MemoryStore) -> mjolnir_units::TreeId {
    mjolnir_store::Store::find(store, "").unwrap().id
}

#[test]
fn replies_overtake_each_other() {
    let store = MemoryStore::with_default(SIZE);
    store.dawdle.set(true);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let mut client = Client::new(near);
    let options = Options::default();
    let (_, order) = run(zip(serve(&store, far, &options), async {
        client.go("", false).await;
        for cookie in 0..64 {
            client.request(0, 3, cookie, 0, 0).await;
        }
        let mut order = Vec::new();
        for _ in 0..64 {
            order.push(client.reply().await.cookie());
        }
        client.goodbye().await;
        order
    }));
    assert!(!order.is_sorted(), "all in order: are they handled concurrently?");
    assert!(store.busy_count_max.get() > 32);
}

#[test]
fn a_goodbye_waits_for_what_is_in_flight() {
    let store = MemoryStore::with_default(SIZE);
    store.dawdle.set(true);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let mut client = Client::new(near);
    let options = Options::default();
    let (end, ()) = run(zip(serve(&store, far, &options), async {
        client.go("", false).await;
        for cookie in 0..10 {
            client.write(1, cookie, cookie * 4096, &[cookie as u8; 4096]).await;
        }
        client.request(0, 2, 0, 0, 0).await;
        let mut cookies = Vec::new();
        for _ in 0..10 {
            cookies.push(client.reply().await.cookie());
        }
        cookies.sort_unstable();
        assert_eq!(cookies, Vec::from_iter(0..10));
        assert!(client.at_end().await);
    }));
    assert_eq!(end.unwrap().requests, 10);
}

/// It need not wait for replies to what it sent before: all of that is done.
#[test]
fn a_client_that_says_goodbye_and_reads_no_reply_has_its_requests_done() {
    for says_goodbye in [true, false] {
        let store = MemoryStore::with_default(SIZE);
        store.dawdle.set(true);
        let (near, far) = duplex(usize::MAX, usize::MAX);
        let mut client = Client::new(near);
        let options = options(1, 1 << 20);
        let (end, ()) = run(zip(serve(&store, far, &options), async {
            client.go("", false).await;
            let mut all = Vec::new();
            for cookie in 0..100 {
                all.extend(request_bytes(0, 1, cookie, cookie * 4096, 4096));
                all.extend([1 + cookie as u8; 4096]);
            }
            if says_goodbye {
                all.extend(request_bytes(0, 2, 0, 0, 0));
            }
            client.stream.push(&all);
            drop(client);
        }));
        assert_eq!(end.unwrap_err().kind, DisconnectKind::Vanished);
        let bytes = store.bytes_of(store.find("default").unwrap().id);
        for (number, block) in bytes.chunks(4096).take(100).enumerate() {
            assert_eq!(block, [1 + number as u8; 4096], "write {number}");
        }
    }
}

/// As a socket does whose other end closed with bytes in it that it had not read: after what was sent
/// before, an error.
struct Resets(support::pipe::Duplex);

impl AsyncRead for Resets {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match pin!(&mut self.0).poll_read(cx, buffer) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            other => other,
        }
    }
}

impl AsyncWrite for Resets {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        pin!(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.0).poll_close(cx)
    }
}

#[test]
fn a_client_that_is_reset_has_what_is_in_flight_done_before_the_end() {
    for hangs in [true, false] {
        let store = MemoryStore::with_default(SIZE);
        store.hang.set(hangs);
        store.dawdle.set(true);
        let (near, far) = duplex(usize::MAX, usize::MAX);
        let mut client = Client::new(near);
        let options = options(200, 1 << 20);
        let client = async {
            client.go("", false).await;
            for cookie in 0..10 {
                client.stream.push(&request_bytes(0, 1, cookie, cookie * 4096, 4096));
                client.stream.push(&[7; 4096]);
            }
            drop(client);
        };
        let mut both = pin!(zip(serve(&store, Resets(far), &options), client));
        let mut cx = Context::from_waker(Waker::noop());
        let ended = (0..1_000).find_map(|_| match both.as_mut().poll(&mut cx) {
            Poll::Ready((end, ())) => Some(end),
            Poll::Pending => None,
        });
        assert_eq!(store.busy_count.get(), if hangs { 10 } else { 0 });
        assert_eq!(ended.is_none(), hangs, "it waits for what is in flight, and for no more");
        if let Some(end) = ended {
            assert_eq!(end.unwrap_err().kind, DisconnectKind::Vanished);
        }
    }
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_takes_no_more() {
    let store = Rc::new(MemoryStore::with_default(SIZE));
    store.dawdle.set(true);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let options = Options::default();
    let mut client = Client::new(near);
    let server = async {
        let Negotiated::Ready(session) = negotiate(&*store, far, &options).await.unwrap() else {
            panic!("the client chose an export")
        };
        let stats = session.stats();
        let stop = poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if stats.in_flight.get() > 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        transmit(&*store, session, stop).await
    };
    let (end, count) = run(zip(server, async {
        client.go("", false).await;
        // Some requests, and a part of one that the server would wait for.
        for cookie in 0..50 {
            client.request(0, 3, cookie, 0, 0).await;
        }
        client.stream.push(&request_bytes(0, 1, 0, 0, 4096));
        let mut count = 0;
        loop {
            let mut byte = [0; 16];
            if futures_lite::AsyncReadExt::read_exact(&mut client.stream, &mut byte).await.is_err()
            {
                return count;
            }
            count += 1;
        }
    }));
    let served = end.unwrap();
    assert_eq!(served.requests, count);
    assert!((1..=50).contains(&count), "{count}");
}

#[test]
fn a_stalled_client_hurts_nobody_else() {
    let store = MemoryStore::with_default(SIZE);
    let options = options(4, 1 << 20);
    // One stalls in its greeting, one within a payload, one with its replies unread.
    let stalls = [Vec::new(), request_bytes(0, 1, 0, 0, 32 << 20), reads(1000, 1 << 20)];
    let mut cx = Context::from_waker(Waker::noop());
    let mut stalled = Vec::new();
    for bytes in stalls {
        let (near, far) = lopsided(usize::MAX, 1000, usize::MAX);
        let mut server = Box::pin(serve(&store, far, &options));
        let client = Box::pin(async {
            let mut client = Client::new(near);
            if !bytes.is_empty() {
                client.go("", true).await;
            }
            client.stream.push(&bytes);
            client
        });
        let mut client = pin!(client);
        let mut done = None;
        for _ in 0..20 {
            assert!(server.as_mut().poll(&mut cx).is_pending());
            if done.is_none()
                && let Poll::Ready(client) = client.as_mut().poll(&mut cx)
            {
                done = Some(client);
            }
        }
        stalled.push((server, done.expect("the client said what it had to say")));
    }
    let (near, far) = duplex(1 << 16, usize::MAX);
    let (end, ()) = run(zip(serve(&store, far, &options), async {
        let mut client = Client::new(near);
        client.go("", true).await;
        for round in 0..100 {
            client.write(0, 1, round * 100, &[round as u8; 100]).await;
            assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 1 });
            assert_eq!(client.read(0, round * 100, 100).await.unwrap(), [round as u8; 100]);
        }
        client.goodbye().await;
    }));
    assert_eq!(end.unwrap().requests, 200);
    for (server, client) in stalled {
        drop(client);
        assert_eq!(run(server).unwrap_err().kind, DisconnectKind::Vanished);
    }
}

#[test]
fn a_busy_connection_lets_others_have_their_turn() {
    let store = MemoryStore::with_default(SIZE);
    let (near, far) = duplex(usize::MAX, usize::MAX);
    let options = Options::default();
    let mut client = Client::new(near);
    let count = 100_000;
    let mut server = pin!(serve(&store, far, &options));
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut talk = pin!(client.go("", false));
        while talk.as_mut().poll(&mut cx).is_pending() {
            assert!(server.as_mut().poll(&mut cx).is_pending());
        }
    }
    client.stream.push(&reads(count, 1));
    assert!(server.as_mut().poll(&mut cx).is_pending());
    let answered = client.stream.waiting() / 17;
    assert!((1..=count / 10).contains(&answered), "{answered} answered at one go");
}
