//! Every command, asked well and asked badly.
//!
//! A client speaks bytes to `serve` over an in-memory stream; the store behind it is naive.

mod support;

use std::rc::Rc;

use mjolnir_nbd::protocol::command_flag as flag;
use mjolnir_nbd::{Disconnect, DisconnectKind, Options, Served};
use mjolnir_store::{Error, ErrorKind, Store, ZeroMode};
use mjolnir_units::TreeId;
use support::client::{Assembly, Client, Reply, long, number, request_bytes};
use support::connect;
use support::memory::MemoryStore;

const SIZE: u64 = 40 << 20;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;

const PERM: u32 = 1;
const IO: u32 = 5;
const INVAL: u32 = 22;
const NOSPC: u32 = 28;

fn store() -> Rc<MemoryStore> {
    let store = MemoryStore::with_default(SIZE);
    store.add("default@monday", SIZE, true);
    Rc::new(store)
}

fn volume(store: &MemoryStore) -> TreeId {
    store.find("default").unwrap().id
}

/// Runs `talk` on the default volume, after negotiation, to an orderly end.
fn with_client<F: Future<Output = Client>>(
    store: &Rc<MemoryStore>,
    structured: bool,
    talk: impl FnOnce(Client) -> F,
) -> Served {
    let (end, ()) = connect(store, &Options::default(), async |mut client| {
        client.go("", structured).await;
        talk(client).await.goodbye().await;
    });
    end.unwrap()
}

/// How the connection ends for the server when the client sends `bytes` and closes.
fn end_after(bytes: &[u8]) -> Result<Served, Disconnect> {
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.go("", true).await;
        client.send(bytes).await;
        client.stream.close_sending();
        while !client.at_end().await {}
    });
    end
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ seed).collect()
}

#[test]
fn what_was_written_is_read_at_any_alignment() {
    for structured in [false, true] {
        let store = store();
        let mut expected = vec![0; SIZE as usize];
        let served = with_client(&store, structured, async |mut client| {
            // Small and whole, small and odd, at the threshold of large, large, and the largest.
            for (offset, length) in [
                (0, 4096),
                (4095, 2),
                (10_000, 1),
                (8192, 32 << 10),
                (50_001, (32 << 10) - 1),
                (1 << 20, 1 << 20),
                (3 << 20, 32 << 20),
                (SIZE as usize - 3, 3),
            ] {
                let data = pattern(length, offset as u8);
                client.write(0, 5, offset as u64, &data).await;
                assert_eq!(client.reply().await, Reply::Simple { error: 0, cookie: 5 });
                expected[offset..offset + length].copy_from_slice(&data);
                let (from, count) = (offset.saturating_sub(5000), (length + 9000).min(32 << 20));
                let count = count.min(SIZE as usize - from);
                let read = if structured {
                    client.read(0, from as u64, count as u32).await.unwrap()
                } else {
                    assert_eq!(client.ask(0, READ, from as u64, count as u32).await.error(), 0);
                    client.receive(count).await
                };
                assert!(read == expected[from..from + count], "{offset}+{length}");
            }
            client
        });
        assert!(store.bytes_of(volume(&store)) == expected);
        assert_eq!(store.misaligned_payloads.get(), 0, "the store would have had to copy");
        assert_eq!(served.requests, 16);
        assert_eq!(served.bytes_written, 4096 + 2 + 1 + (64 << 10) - 1 + (33 << 20) + 3);
    }
}

#[test]
fn holes_are_read_as_holes_and_neighbours_are_merged() {
    let store = store();
    store.fill(volume(&store), 8192, &pattern(4096, 1));
    with_client(&store, true, async |mut client| {
        client.request(0, READ, 9, 100, 16384).await;
        let mut kinds = Vec::new();
        let mut assembly = Assembly::new(100, 16384);
        loop {
            let reply = client.reply().await;
            assembly.add(&reply);
            if let Reply::Chunk { kind, payload, .. } = &reply {
                kinds.push((*kind, long(&payload[..8])));
            }
            if reply.is_last() {
                break;
            }
        }
        assert_eq!(kinds, [(2, 100), (1, 8192), (2, 12288)]);
        assert!(assembly.finish()[8092..8092 + 4096] == pattern(4096, 1));
        client
    });
}

#[test]
fn a_read_that_must_not_be_split_comes_in_one_piece() {
    let store = store();
    store.fill(volume(&store), 8192, &pattern(4096, 1));
    with_client(&store, true, async |mut client| {
        // Data and holes, data only, holes only.
        for (offset, length, kind) in [(0, 16384, 1), (8192, 4096, 1), (16384, 4096, 2)] {
            client.request(flag::DF, READ, 9, offset, length).await;
            let reply = client.reply().await;
            assert!(matches!(reply, Reply::Chunk { done: true, kind: k, .. } if k == kind));
            let mut assembly = Assembly::new(offset, length);
            assembly.add(&reply);
            let bytes = assembly.finish();
            assert!(bytes == store.bytes_of(volume(&store))[offset as usize..][..length as usize]);
        }
        client
    });
}

#[test]
fn requests_for_nothing_succeed_at_once() {
    let store = store();
    with_client(&store, true, async |mut client| {
        let none = Reply::Chunk { done: true, kind: 0, cookie: 77, payload: vec![] };
        assert_eq!(client.ask(0, READ, SIZE, 0).await, none);
        for command in [WRITE, TRIM, ZEROES, CACHE] {
            assert_eq!(client.ask(0, command, SIZE, 0).await.error(), 0);
        }
        assert_eq!(client.ask(0, STATUS, 0, 0).await.error(), INVAL);
        client
    });
    with_client(&store, false, async |mut client| {
        assert_eq!(client.ask(0, READ, 0, 0).await, Reply::Simple { error: 0, cookie: 77 });
        client
    });
}

#[test]
fn block_status_tells_what_is_mapped() {
    let store = store();
    for block in [0, 1, 4] {
        store.fill(volume(&store), block * 4096, &[1]);
    }
    let status = |reply: Reply| -> Vec<(u32, u32)> {
        let Reply::Chunk { done: true, kind: 5, payload, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(number(&payload[..4]), 1, "the id of base:allocation");
        let pairs = payload[4..].chunks(8);
        pairs.map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect()
    };
    with_client(&store, true, async |mut client| {
        let reply = client.ask(0, STATUS, 0, 32768).await;
        assert_eq!(status(reply), [(8192, 0), (8192, 3), (4096, 0), (12288, 3)]);
        let reply = client.ask(flag::REQ_ONE, STATUS, 0, 32768).await;
        assert_eq!(status(reply), [(8192, 0)]);
        let reply = client.ask(flag::FUA, STATUS, 8191, 3).await;
        assert_eq!(status(reply), [(1, 0), (2, 3)]);
        let reply = client.ask(flag::REQ_ONE, STATUS, SIZE - 1, 1).await;
        assert_eq!(status(reply), [(1, 3)]);
        client
    });
}

#[test]
fn zeroes_and_trims_change_what_they_should() {
    let store = store();
    store.fill(volume(&store), 0, &pattern(65536, 3));
    let mut expected = pattern(65536, 3);
    with_client(&store, true, async |mut client| {
        for (flags, command, offset, length) in [
            (0, ZEROES, 100, 50),
            (flag::NO_HOLE, ZEROES, 4096, 4096),
            (flag::FAST_ZERO | flag::FUA, ZEROES, 12000, 9000),
            (flag::FUA, TRIM, 32768, 8192),
            (0, TRIM, 60000, 100),
        ] {
            assert_eq!(client.ask(flags, command, offset, length).await.error(), 0);
        }
        client
    });
    expected[100..150].fill(0);
    expected[4096..8192].fill(0);
    expected[12000..21000].fill(0);
    expected[32768..40960].fill(0);
    assert!(store.bytes_of(volume(&store))[..65536] == expected);
    let modes = [ZeroMode::Unmap, ZeroMode::KeepAllocated, ZeroMode::Unmap];
    assert_eq!(*store.zero_modes.borrow(), modes);
    assert_eq!(store.durable_changes.get(), 2);
}

#[test]
fn flush_and_fua_reach_the_store() {
    let store = store();
    with_client(&store, false, async |mut client| {
        assert_eq!(client.ask(0, FLUSH, 0, 0).await.error(), 0);
        assert_eq!(client.ask(flag::FUA, FLUSH, 0, 0).await.error(), 0);
        assert_eq!(store.flushes.get(), 2);
        client.write(0, 1, 0, &[1]).await;
        client.reply().await;
        assert_eq!(store.durable_changes.get(), 0);
        client.write(flag::FUA, 1, 0, &[1]).await;
        client.reply().await;
        assert_eq!(store.durable_changes.get(), 1);
        assert_eq!(client.ask(flag::FUA, CACHE, 0, 4096).await.error(), 0);
        assert_eq!(client.ask(0, FLUSH, 1, 0).await.error(), INVAL);
        assert_eq!(client.ask(0, FLUSH, 0, 1).await.error(), INVAL);
        client
    });
}

#[test]
fn requests_past_the_end_are_refused_as_the_protocol_says() {
    let store = store();
    for structured in [true, false] {
        with_client(&store, structured, async |mut client| {
            for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX, 4096)] {
                for (command, errno) in
                    [(READ, INVAL), (TRIM, INVAL), (CACHE, INVAL), (STATUS, INVAL), (ZEROES, NOSPC)]
                {
                    let reply = client.ask(0, command, offset, length).await;
                    assert_eq!(reply.error(), errno, "command {command} at {offset}");
                }
                client.write(0, 3, offset, &vec![1; length as usize]).await;
                assert_eq!(client.reply().await.error(), NOSPC);
            }
            // The stream is still in step.
            assert_eq!(client.ask(0, FLUSH, 0, 0).await.error(), 0);
            client
        });
    }
}

#[test]
fn a_snapshot_refuses_changes_and_can_be_read() {
    let store = store();
    store.fill(store.find("default@monday").unwrap().id, 0, b"monday");
    let options = Options { read_only: true, ..Options::default() };
    for (name, options) in [("default@monday", &Options::default()), ("default", &options)] {
        connect(&store, options, async |mut client| {
            client.go(name, true).await;
            for (command, length) in [(TRIM, 4096), (ZEROES, 4096), (WRITE, 0)] {
                let reply = client.ask(0, command, 0, length).await;
                assert_eq!(reply.error(), PERM);
                assert!(reply.message().contains("reading only"), "{}", reply.message());
            }
            client.write(0, 3, 0, &pattern(100_000, 0)).await;
            assert_eq!(client.reply().await.error(), PERM);
            let read = client.read(0, 0, 6).await.unwrap();
            assert_eq!(read, if name == "default" { *b"\0\0\0\0\0\0" } else { *b"monday" });
            assert_eq!(client.ask(0, FLUSH, 0, 0).await.error(), 0);
            client.goodbye().await;
        })
        .0
        .unwrap();
    }
    assert!(store.bytes_of(volume(&store)).iter().all(|byte| *byte == 0));
}

#[test]
fn unknown_commands_and_flags_are_refused_and_the_stream_stays_in_step() {
    for structured in [false, true] {
        with_client(&store(), structured, async |mut client| {
            for command in [8, 9, 0x100, 0xffff] {
                // What is unknown has no payload.
                assert_eq!(client.ask(0, command, 0, 4096).await.error(), INVAL);
            }
            for command in [READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, STATUS] {
                for bit in 0..16 {
                    let known = bit == 0
                        || (command == READ && bit == 2 && structured)
                        || (command == ZEROES && (bit == 1 || bit == 4))
                        || (command == STATUS && bit == 3);
                    if !known {
                        let reply = client.ask(1 << bit, command, 0, 0).await;
                        assert_eq!(reply.error(), INVAL, "flag {bit} of command {command}");
                    }
                }
            }
            client.write(1 << 9, 3, 0, &[7; 5000]).await;
            assert_eq!(client.reply().await.error(), INVAL);
            assert_eq!(client.ask(0, FLUSH, 0, 0).await.error(), 0);
            client
        });
    }
}

#[test]
fn block_status_without_a_selected_context_is_refused() {
    with_client(&store(), false, async |mut client| {
        assert_eq!(client.ask(0, STATUS, 0, 4096).await.error(), INVAL);
        client
    });
}

#[test]
fn requests_of_more_than_32_mib_are_refused_and_their_payload_is_skipped() {
    let store = store();
    let served = with_client(&store, true, async |mut client| {
        assert_eq!(client.ask(0, READ, 0, (32 << 20) + 1).await.error(), INVAL);
        client.write(0, 3, 0, &vec![7; (32 << 20) + 1]).await;
        assert_eq!(client.reply().await.error(), INVAL);
        // These carry no payload, so their length is nobody's burden.
        assert_eq!(client.ask(0, ZEROES, 0, SIZE as u32).await.error(), 0);
        assert_eq!(client.ask(0, TRIM, 0, SIZE as u32).await.error(), 0);
        assert_eq!(client.ask(0, FLUSH, 0, 0).await.error(), 0);
        client
    });
    assert_eq!((served.requests, served.bytes_written), (5, 0));
}

#[test]
fn errors_of_the_store_keep_their_meaning_and_their_words() {
    for (kind, errno) in [
        (ErrorKind::NoSpace, NOSPC),
        (ErrorKind::Damaged, IO),
        (ErrorKind::Io, IO),
        (ErrorKind::Closed, 108),
        (ErrorKind::Unsupported, 95),
    ] {
        let store = store();
        with_client(&store, true, async |mut client| {
            for command in [READ, WRITE, TRIM, ZEROES, CACHE, STATUS, FLUSH] {
                *store.fail_next.borrow_mut() = Some(Error::new(kind, "block 7 is odd"));
                let length = if command == FLUSH { 0 } else { 512 };
                client.request(0, command, 1, 0, length).await;
                if command == WRITE {
                    client.send(&[0; 512]).await;
                }
                let reply = client.reply().await;
                assert_eq!((reply.error(), &*reply.message()), (errno, "block 7 is odd"));
            }
            client
        });
    }
}

#[test]
fn a_volume_deleted_under_a_client_tells_it_to_go() {
    let store = store();
    with_client(&store, true, async |mut client| {
        store.remove(volume(&store));
        assert_eq!(client.read(0, 0, 4096).await, Err(108));
        client
    });
}

#[test]
fn a_stream_out_of_step_ends_the_connection_with_the_magic_found() {
    let mut bytes = request_bytes(0, FLUSH, 1, 0, 0);
    bytes[0] = 0xff;
    let error = end_after(&bytes).unwrap_err();
    assert_eq!(error.kind, DisconnectKind::Protocol);
    assert!(error.message.contains("0xff609513 as request magic"), "{error}");
}

#[test]
fn an_absurd_write_ends_the_connection() {
    for length in [(128 << 20) + 1, u32::MAX] {
        let error = end_after(&request_bytes(0, WRITE, 1, 0, length)).unwrap_err();
        assert_eq!(error.kind, DisconnectKind::Protocol);
        assert!(error.message.contains(&length.to_string()), "{error}");
    }
}

#[test]
fn a_client_that_vanishes_is_noticed_wherever_it_stops() {
    let mut bytes = request_bytes(0, WRITE, 1, 0, 5000);
    bytes.extend(pattern(5000, 1));
    bytes.extend(request_bytes(0, WRITE, 2, SIZE, 100));
    bytes.extend(pattern(100, 1));
    for length in (0..60).chain((60..bytes.len()).step_by(97)).chain([5028, 5056, 5156]) {
        let error = end_after(&bytes[..length]).unwrap_err();
        assert_eq!(error.kind, DisconnectKind::Vanished, "after {length} bytes: {error}");
        let between = [0, 5028, 5156].contains(&length);
        assert_eq!(error.message.contains("between requests"), between, "{length}: {error}");
    }
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.go("", false).await;
        client.request(0, FLUSH, 1, 0, 0).await;
        client.request(0, FLUSH, 2, 0, 0).await;
        client.stream.close_sending();
        assert_eq!(client.reply().await.error() + client.reply().await.error(), 0);
        assert!(client.at_end().await);
    });
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Vanished);
}
