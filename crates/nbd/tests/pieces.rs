//! A request that is longer than there is room for is handled in pieces that fit, each within the bound; the
//! client hears of none of that.

mod support;

use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use futures_lite::future::zip;
use mjolnir_buffer::Buffers;
use mjolnir_nbd::{Allowance, Disconnect, DisconnectKind, Options, Served, serve};
use mjolnir_store::Store;
use mjolnir_units::BLOCK_SIZE;
use support::client::{Assembly, Client, Reply, request_bytes};
use support::memory::MemoryStore;
use support::pipe::{Duplex, duplex, lopsided};
use support::run;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;
const FUA: u16 = 1;
const DF: u16 = 4;
const ENOSPC: u32 = 28;

/// Bytes of which no two blocks are alike.
fn bytes(count: u64) -> Vec<u8> {
    (0..count).map(|at| (at % 251 + at / BLOCK_SIZE) as u8).collect()
}

/// With so many bytes for all connections, and so many for each.
fn options(all: u64, each: u64) -> Options {
    let allowance = Allowance::new(all).with_each(each);
    Options {
        allowance,
        buffers: Buffers::keeping(0),
        inputs: Buffers::keeping(0),
        ..Options::default()
    }
}

/// One client of a store, to its end.
fn connect<T>(
    store: &MemoryStore,
    options: &Options,
    talk: impl AsyncFnOnce(Client) -> T,
) -> (Result<Served, Disconnect>, T) {
    let (near, far) = duplex(1 << 20, usize::MAX);
    run(zip(serve(store, far, options), talk(Client::new(near))))
}

/// What a store holds of its volume.
fn content(store: &MemoryStore) -> Vec<u8> {
    store.bytes_of(store.find("").unwrap().id)
}

/// Whether these pieces add up to the range, each block in one of them, and none longer than `most`.
fn assert_pieces(store: &MemoryStore, (start, end): (u64, u64), most: u64) {
    let mut pieces = store.ranges.take();
    pieces.sort_unstable();
    assert!(
        pieces.len() > 1 && (pieces[0].0, pieces.last().unwrap().1) == (start, end),
        "{pieces:?}"
    );
    for pair in pieces.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "one follows the other");
        assert!(pair[1].0.is_multiple_of(BLOCK_SIZE), "no block is in two of them: {}", pair[1].0);
    }
    assert!(pieces.iter().all(|(start, end)| end - start <= most), "{pieces:?}");
}

#[test]
fn a_write_in_pieces_is_one_write_to_its_client() {
    for (offset, length) in
        [(0, 4 * MIB), (4095, 3 * MIB), (4097, 3 * MIB + 1), (100, 5000 + 4 * MIB)]
    {
        for (all, each) in [(u64::MAX, 0), (4 * MIB, 64 << 10), (0, 100_000), (0, 0)] {
            let store = MemoryStore::with_default(SIZE);
            store.dawdle.set(true);
            let data = bytes(length);
            let (end, ()) = connect(&store, &options(all, each), async |mut client| {
                client.go("", true).await;
                client.write(0, 1, offset, &data).await;
                assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 1 });
                client.write(0, 2, 5, b"next").await;
                assert_eq!(client.reply().await.cookie(), 2);
                client.goodbye().await;
            });
            assert_eq!(
                (end.as_ref().unwrap().requests, end.unwrap().bytes_written),
                (2, length + 4)
            );
            assert_eq!(store.ranges.borrow_mut().pop(), Some((5, 9)));
            let most = if all > 0 { MIB } else { each.max(16 << 10) };
            assert_pieces(&store, (offset, offset + length), most);
            let mut expected = vec![0; SIZE as usize];
            expected[offset as usize..][..data.len()].copy_from_slice(&data);
            expected[5..9].copy_from_slice(b"next");
            assert!(content(&store) == expected, "{length} at {offset}, {all} and {each}");
        }
    }
}

/// The flush begins once all pieces are acknowledged, and the reply follows it.
#[test]
fn a_durable_write_in_pieces_is_durable_as_a_whole() {
    let store = MemoryStore::with_default(SIZE);
    store.dawdle.set(true);
    connect(&store, &options(MIB, 0), async |mut client| {
        client.go("", false).await;
        client.write(FUA, 1, 0, &bytes(4 * MIB)).await;
        assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 1 });
        assert_eq!((store.flushes.get(), store.durable_changes.get()), (1, 0));
        client.write(FUA, 2, 0, &[1; 4096]).await;
        assert_eq!(client.reply().await.error(), 0);
        assert_eq!((store.flushes.get(), store.durable_changes.get()), (1, 1));
        client.goodbye().await;
    })
    .0
    .unwrap();
}

/// The rest of its payload passes and is held by nobody, and the connection goes on.
#[test]
fn a_write_that_fails_in_the_middle_is_answered_once() {
    for (all, dawdles) in [(u64::MAX, false), (MIB, true), (0, true), (0, false)] {
        let store = MemoryStore::with_default(SIZE);
        store.bad_from.set(Some(3 * MIB));
        store.dawdle.set(dawdles);
        let data = bytes(8 * MIB);
        let (end, ()) = connect(&store, &options(all, 0), async |mut client| {
            client.go("", false).await;
            client.write(FUA, 1, 0, &data).await;
            assert_eq!(client.reply().await, Reply::Simple { error: ENOSPC, cookie: 1 });
            client.write(0, 2, 0, &data[..5000]).await;
            assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 2 });
            client.goodbye().await;
        });
        assert_eq!(end.unwrap().requests, 2);
        assert_eq!(store.flushes.get(), 0, "nothing is promised");
        assert!(content(&store)[..2 << 20] == data[..2 << 20], "what came before it is written");
        let last = store.ranges.borrow().iter().map(|range| range.1).max().unwrap();
        assert!(dawdles || last <= 6 * MIB, "all of it is written, though some failed: {last}");
    }
}

#[test]
fn a_client_that_dies_in_the_middle_leaves_what_it_sent() {
    let store = MemoryStore::with_default(SIZE);
    let options = options(MIB, 0);
    let data = bytes(3 * MIB);
    let (end, ()) = connect(&store, &options, async |mut client| {
        client.go("", false).await;
        client.request(0, 1, 1, 100, 4 << 20).await;
        client.send(&data).await;
    });
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Vanished);
    let written = store.ranges.borrow().iter().map(|range| range.1).max().unwrap();
    assert!((2 * MIB..=3 * MIB + 100).contains(&written) && written.is_multiple_of(BLOCK_SIZE));
    assert!(content(&store)[100..written as usize] == data[..written as usize - 100]);
    assert_eq!((options.allowance.taken(), options.buffers.bytes()), (0, 0));
}

type Server<'a> = Pin<Box<dyn Future<Output = Result<Served, Disconnect>> + 'a>>;

/// Clients that say something after they chose an export, and then nothing.
fn stall<'a>(
    store: &'a MemoryStore,
    options: &'a Options,
    count: u64,
    said: &[u8],
) -> Vec<(Server<'a>, Duplex)> {
    let mut cx = Context::from_waker(Waker::noop());
    let stall_one = |_| {
        let (near, far) = lopsided(usize::MAX, 1000, usize::MAX);
        let mut server: Server<'a> = Box::pin(serve(store, far, options));
        let mut client = Client::new(near);
        {
            let mut chosen = pin!(client.go("", true));
            while chosen.as_mut().poll(&mut cx).is_pending() {
                assert!(server.as_mut().poll(&mut cx).is_pending());
            }
        }
        client.stream.push(said);
        for _ in 0..said.len() / 4096 + 10 {
            assert!(server.as_mut().poll(&mut cx).is_pending());
        }
        (server, client.stream)
    };
    (0..count).map(stall_one).collect()
}

#[test]
fn clients_that_stall_in_a_write_hold_their_share_and_delay_nobody() {
    const CLIENTS: u64 = 200;
    const EACH: u64 = 16 << 10;
    let store = MemoryStore::with_default(SIZE);
    let options = options(2 * MIB, EACH);
    let data = bytes(MIB - 5000);
    let said = [&request_bytes(0, 1, 9, 3, 1 << 20)[..], &data].concat();
    let mut stalled = stall(&store, &options, CLIENTS, &said);
    assert!(stalled.iter().all(|(_, client)| client.unreceived() == 0), "all of it is taken in");
    let held = options.buffers.bytes() + options.inputs.bytes();
    assert!(held as u64 <= 2 * MIB + CLIENTS * EACH, "{held}");
    assert!(options.allowance.taken() <= 2 * MIB, "{}", options.allowance.taken());

    let (end, ()) = connect(&store, &options, async |mut client| {
        client.go("", true).await;
        for cookie in 0..64 {
            client.write(0, cookie, 2 * MIB, &[7; 4096]).await;
        }
        for _ in 0..64 {
            assert_eq!(client.reply().await.error(), 0);
        }
        assert_eq!(client.ask(0, 3, 0, 0).await.error(), 0);
        client.goodbye().await;
    });
    assert_eq!(end.unwrap().requests, 65);

    // And each ends what it began.
    let rest = bytes(MIB).split_off(data.len());
    for (server, client) in &mut stalled {
        client.push(&rest);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            assert!(server.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(client.take_waiting()[4..], [&[0; 4][..], &9u64.to_be_bytes()].concat());
    }
    assert!(content(&store)[3..3 + MIB as usize] == bytes(MIB));
}

/// Reads of structured replies come in chunks anyway; other replies are one run of bytes, between which
/// nothing else may come.
#[test]
fn a_read_in_pieces_is_one_read_to_its_client() {
    let store = MemoryStore::with_default(SIZE);
    let data = bytes(3 * MIB);
    let mut expected = vec![0; SIZE as usize];
    expected[MIB as usize..4 << 20].copy_from_slice(&data);
    store.fill(store.find("").unwrap().id, 1 << 20, &data);
    store.dawdle.set(true);
    for (offset, length) in [(0, 8 * MIB), (MIB - 5, 2 * MIB + 7), (9 * MIB, 3 * MIB)] {
        for (all, each) in [(MIB, 0), (0, 100_000), (0, 0)] {
            let expected = &expected[offset as usize..][..length as usize];
            let options = options(all, each);
            for flags in [0, DF] {
                let (end, ()) = connect(&store, &options, async |mut client| {
                    client.go("", true).await;
                    client.write(0, 5, 15 * MIB, &[1; 9]).await;
                    client.request(flags, 0, 1, offset, length as u32).await;
                    client.request(0, 3, 2, 0, 0).await;
                    let (mut read, mut others) = (Assembly::new(offset, length as u32), Vec::new());
                    let mut is_read = false;
                    while others.len() < 2 || !is_read {
                        let reply = client.reply().await;
                        assert_eq!(reply.error(), 0);
                        if reply.cookie() == 1 {
                            read.add(&reply);
                            is_read = reply.is_last();
                        } else {
                            others.push(reply.cookie());
                        }
                    }
                    assert!(flags == 0 || read.pieces == 1, "{} pieces", read.pieces);
                    assert!(read.finish() == expected, "{length} at {offset}, {all} and {each}");
                    client.goodbye().await;
                });
                assert_eq!(end.as_ref().unwrap().requests, 3);
                assert_eq!(end.unwrap().bytes_read, length);
                store.ranges.borrow_mut().retain(|range| range.0 != 15 * MIB);
                assert_pieces(&store, (offset, offset + length), MIB);
            }
            connect(&store, &options, async |mut client| {
                client.go("", false).await;
                client.request(0, 0, 1, offset, length as u32).await;
                client.request(0, 3, 2, 0, 0).await;
                assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 1 });
                assert!(client.receive(length as usize).await == expected);
                assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 2 });
                client.goodbye().await;
            })
            .0
            .unwrap();
            store.ranges.take();
        }
    }
}

/// Where the form of a reply has no word for it, the connection ends: what was sent must not pass for all.
#[test]
fn a_read_that_fails_in_the_middle_says_so() {
    let store = MemoryStore::with_default(SIZE);
    store.fill(store.find("").unwrap().id, 0, &bytes(8 * MIB));
    store.bad_from.set(Some(3 * MIB));
    let options = options(2 * MIB, 0);
    let (end, ()) = connect(&store, &options, async |mut client| {
        client.go("", true).await;
        assert_eq!(client.read(0, 0, 8 << 20).await, Err(ENOSPC));
        assert_eq!(client.read(0, 5, 10).await.unwrap(), bytes(15)[5..]);
        client.goodbye().await;
    });
    assert_eq!(end.unwrap().requests, 2);
    for (structured, flags) in [(false, 0), (true, DF)] {
        let (end, ()) = connect(&store, &options, async |mut client| {
            client.go("", structured).await;
            client.request(flags, 0, 1, 0, 8 << 20).await;
            client.receive(2 << 20).await;
            let mut rest = Vec::new();
            futures_lite::AsyncReadExt::read_to_end(&mut client.stream, &mut rest).await.unwrap();
            assert!(rest.len() < 2 << 20);
        });
        let end = end.unwrap_err();
        assert_eq!(end.kind, DisconnectKind::Refused);
        assert!(
            end.message.contains("8388608 bytes at 0") && end.message.contains("is bad"),
            "{end}"
        );
        // Where the first piece fails, there is a word.
        let (end, ()) = connect(&store, &options, async |mut client| {
            client.go("", structured).await;
            client.request(flags, 0, 1, 3 * MIB, 8 << 20).await;
            assert_eq!(client.reply().await.error(), ENOSPC);
            client.goodbye().await;
        });
        assert_eq!(end.unwrap().requests, 1);
    }
}

#[test]
fn answers_that_nobody_fetches_keep_to_the_allowance() {
    const CLIENTS: u64 = 100;
    const EACH: u64 = 32 << 10;
    let store = MemoryStore::with_default(SIZE);
    store.fill(store.find("").unwrap().id, 0, &bytes(8 * MIB));
    let options = options(2 * MIB, EACH);
    let said: Vec<u8> = (0..10_000).flat_map(|at| request_bytes(0, 0, at, 0, 8 << 20)).collect();
    let stalled = stall(&store, &options, CLIENTS, &said);
    let begun: u64 = store.ranges.borrow().iter().map(|range| range.1 - range.0).sum();
    assert!(begun <= 2 * MIB + CLIENTS * EACH, "{begun} bytes were read");
    let taken = options.allowance.taken() + options.inputs.bytes() as u64;
    assert!(taken <= 4 * MIB, "{taken}");
    store.ranges.take();
    connect(&store, &options, async |mut client| {
        client.go("", true).await;
        assert!(
            client.read(0, 0, 8 << 20).await.unwrap() == bytes(8 * MIB),
            "one that fetches its own"
        );
        client.goodbye().await;
    })
    .0
    .unwrap();
    drop(stalled);
    assert_eq!((options.allowance.taken(), options.inputs.bytes()), (0, 0));
}

#[test]
fn where_there_is_little_room_fewer_extents_are_told() {
    let store = MemoryStore::with_default(SIZE);
    let id = store.find("").unwrap().id;
    for block in (0..4096).step_by(2) {
        store.fill(id, block * 4096, &[1]);
    }
    let told = |all: u64| {
        let (_, told) = connect(&store, &options(all, 0), async |mut client| {
            client.go("", true).await;
            let Reply::Chunk { payload, .. } = client.ask(0, 7, 0, 16 << 20).await else {
                panic!("it is answered by a chunk")
            };
            client.goodbye().await;
            (payload.len() - 4) / 8
        });
        told
    };
    assert_eq!(told(MIB), 4096);
    assert!((100..2000).contains(&told(0)));
}

/// Also where it is asked again each time that a piece ends.
#[test]
fn input_that_waits_keeps_to_the_allowance() {
    let store = MemoryStore::with_default(SIZE);
    store.hang.set(true);
    let options = options(MIB, 0);
    let said: Vec<u8> = [&request_bytes(0, 1, 0, 0, 4096)[..], &[1; 4096]].concat().repeat(1000);
    let stalled = stall(&store, &options, 100, &said);
    let held = options.buffers.bytes() + options.inputs.bytes();
    assert!(held <= (4 << 20) + 100 * (16 << 10), "{held}");
    drop(stalled);
    let quiet = stall(&store, &options, 100, &[]);
    assert_eq!(options.inputs.bytes(), 0, "clients that say nothing need none");
    drop(quiet);
}
