//! Every option of the negotiation, asked well and asked badly.
//!
//! A client speaks bytes to `negotiate` over an in-memory stream.

mod support;

use std::rc::Rc;

use futures_lite::future::zip;
use mjolnir_nbd::protocol::{option, option_reply_type as reply, transmission_flag as flag};
use mjolnir_nbd::{
    Disconnect, DisconnectKind, Negotiated, Options, Served, Tls, negotiate, negotiate_secured,
    serve,
};
use support::client::{Client, FLAGS, counted, info_data, meta_data, option_bytes};
use support::memory::MemoryStore;
use support::pipe::duplex;
use support::{connect, run};

const SIZE: u64 = 1 << 20;

fn store() -> Rc<MemoryStore> {
    let store = MemoryStore::with_default(SIZE);
    store.add("default@monday", SIZE / 2, true);
    store.add("db", 5 * 512, false);
    Rc::new(store)
}

fn talk<T, F: Future<Output = T>>(client: impl FnOnce(Client) -> F) -> T {
    connect(&store(), &Options::default(), client).1
}

/// How the connection ends for the server when the client sends `bytes` after its flags.
fn end_after(bytes: &[u8]) -> Result<Served, Disconnect> {
    connect(&store(), &Options::default(), async |mut client| {
        client.greet(FLAGS).await;
        client.send(bytes).await;
        client.stream.close_sending();
    })
    .0
}

fn assert_protocol_error(end: Result<Served, Disconnect>, words: &str) {
    let error = end.expect_err("the client broke the protocol");
    assert_eq!(error.kind, DisconnectKind::Protocol, "{error}");
    assert!(error.message.contains(words), "{error}");
}

#[test]
fn volumes_and_snapshots_are_listed() {
    let names: Vec<String> = talk(async |mut client| {
        client.greet(FLAGS).await;
        let mut replies = client.option(option::LIST, &[]).await;
        assert_eq!(replies.pop(), Some((reply::ACK, vec![])));
        let name = |(kind, data): (u32, Vec<u8>)| {
            assert_eq!(kind, reply::SERVER);
            let name = String::from_utf8(data[4..].to_vec()).unwrap();
            assert_eq!(data, counted(&name));
            name
        };
        replies.into_iter().map(name).collect()
    });
    assert_eq!(names, ["default", "default@monday", "db"]);
}

#[test]
fn long_lists_arrive_whole() {
    let store = store();
    for number in 0..5000 {
        store.add(&format!("volume-with-a-rather-long-name-{number}"), 512, false);
    }
    let (_, replies) = connect(&store, &Options::default(), async |mut client| {
        client.greet(FLAGS).await;
        client.option(option::LIST, &[]).await
    });
    assert_eq!(replies.len(), 5004);
}

#[test]
fn info_tells_what_was_asked_and_go_begins_transmission() {
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.greet(FLAGS).await;
        let data = info_data("", &[1, 2, 3, 0xabc]);
        for number in [option::INFO, option::GO] {
            let replies = client.option(number, &data).await;
            let told: Vec<&[u8]> = replies.iter().map(|(_, data)| &data[..]).collect();
            assert_eq!(replies.last().unwrap().0, reply::ACK);
            assert!(replies[..4].iter().all(|(kind, _)| *kind == reply::INFO));
            let flags = flag::HAS_FLAGS
                | flag::SEND_FLUSH
                | flag::SEND_FUA
                | flag::SEND_TRIM
                | flag::SEND_WRITE_ZEROES
                | flag::SEND_FAST_ZERO
                | flag::CAN_MULTI_CONN
                | flag::SEND_CACHE;
            assert_eq!(told[0], [&[0, 0][..], &SIZE.to_be_bytes(), &flags.to_be_bytes()].concat());
            assert_eq!(told[1], b"\0\x01default");
            assert_eq!(told[2], b"\0\x02volume");
            let sizes = [1u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
            assert_eq!(told[3], [&[0, 3][..], &sizes].concat());
            assert_eq!(replies.len(), 5);
        }
        assert_eq!(client.ask(0, 3, 0, 0).await.error(), 0);
        client.goodbye().await;
    });
    let served = end.unwrap();
    assert_eq!((served.export.as_deref(), served.requests), (Some("default"), 1));
}

#[test]
fn snapshots_are_exported_for_reading_only() {
    let (size, flags) = talk(async |mut client| client.go("default@monday", true).await);
    assert_eq!(size, SIZE / 2);
    assert_ne!(flags & flag::READ_ONLY, 0);
    assert_ne!(flags & flag::SEND_DF, 0, "structured replies were negotiated");
    assert_eq!(flags & (flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO), 0);
    let options = Options { read_only: true, ..Options::default() };
    let (_, (_, flags)) =
        connect(&store(), &options, async |mut client| client.go("db", false).await);
    assert_ne!(flags & flag::READ_ONLY, 0, "the server was told to refuse changes");
}

#[test]
fn an_unknown_export_is_said_to_be_so() {
    talk(async |mut client| {
        client.greet(FLAGS).await;
        for number in [option::INFO, option::GO] {
            let replies = client.option(number, &info_data("nope", &[])).await;
            assert_eq!(replies[0].0, reply::ERR_UNKNOWN);
            assert!(String::from_utf8(replies[0].1.clone()).unwrap().contains("nope"));
        }
        client.short_option(option::STRUCTURED_REPLY, &[]).await;
        for number in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
            let kind = client.short_option(number, &meta_data("nope", &[])).await;
            assert_eq!(kind, reply::ERR_UNKNOWN);
        }
    });
}

#[test]
fn export_name_begins_transmission_with_or_without_zeroes() {
    for (flags, zeroes) in [(FLAGS, 0), (1, 124), (0, 124), (2, 0)] {
        let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
            client.greet(flags).await;
            client.send(&option_bytes(option::EXPORT_NAME, b"db")).await;
            let told = client.receive(10 + zeroes).await;
            assert_eq!(told[..8], 2560u64.to_be_bytes());
            assert!(told[10..].iter().all(|byte| *byte == 0));
            assert_eq!(client.ask(0, 3, 0, 0).await.error(), 0);
            client.goodbye().await;
        });
        assert_eq!(end.unwrap().export.as_deref(), Some("db"));
    }
}

#[test]
fn export_name_of_what_is_not_there_ends_the_connection() {
    let error = end_after(&option_bytes(option::EXPORT_NAME, b"nope")).unwrap_err();
    assert_eq!(error.kind, DisconnectKind::Refused);
    assert!(error.message.contains("nope"), "{error}");
    assert_protocol_error(end_after(&option_bytes(option::EXPORT_NAME, b"\xff")), "UTF-8");
}

#[test]
fn abort_is_acknowledged_and_ends_in_order() {
    for data in [&b""[..], b"why not"] {
        let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
            client.greet(FLAGS).await;
            assert_eq!(client.short_option(option::ABORT, data).await, reply::ACK);
            assert!(client.at_end().await);
        });
        assert_eq!(end.unwrap(), Served::default());
    }
    // A client that leaves without waiting for the reply left in order, too.
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.greet(FLAGS).await;
        client.send(&option_bytes(option::ABORT, &[])).await;
    });
    assert_eq!(end.unwrap(), Served::default());
}

#[test]
fn metadata_contexts_need_structured_replies() {
    talk(async |mut client| {
        client.greet(FLAGS).await;
        for number in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
            let data = meta_data("db", &["base:allocation"]);
            assert_eq!(client.short_option(number, &data).await, reply::ERR_INVALID);
        }
    });
}

#[test]
fn metadata_contexts_are_listed_and_selected_by_name() {
    let context =
        |id: u32| (reply::META_CONTEXT, [&id.to_be_bytes()[..], b"base:allocation"].concat());
    let none = vec![(reply::ACK, vec![])];
    let listed = vec![context(0), none[0].clone()];
    let selected = vec![context(1), none[0].clone()];
    talk(async |mut client| {
        client.greet(FLAGS).await;
        assert_eq!(client.short_option(option::STRUCTURED_REPLY, &[]).await, reply::ACK);
        for (queries, list, set) in [
            (&[][..], &listed, &none),
            (&["base:"], &listed, &none),
            (&["base:allocation"], &listed, &selected),
            (&["x-odd:", "qemu:dirty-bitmap:a", "base:allocation"], &listed, &selected),
            (&["base:allocation", "base:allocation"], &listed, &selected),
            (&["base:other", "base", "", "qemu:"], &none, &none),
        ] {
            let data = meta_data("db", queries);
            assert_eq!(&client.option(option::LIST_META_CONTEXT, &data).await, list, "{queries:?}");
            assert_eq!(&client.option(option::SET_META_CONTEXT, &data).await, set, "{queries:?}");
        }
    });
}

#[test]
fn a_selection_holds_for_its_export_and_until_the_next_one() {
    let select = meta_data("db", &["base:allocation"]);
    for (second, name, errno) in [
        (None, "db", 0),
        (None, "default", 22),
        (Some(meta_data("db", &[])), "db", 22),
        (Some(meta_data("nope", &[])), "db", 22),
        (Some(vec![1]), "db", 22),
        (Some(vec![0; (64 << 10) + 1]), "db", 22),
    ] {
        talk(async |mut client| {
            client.greet(FLAGS).await;
            client.short_option(option::STRUCTURED_REPLY, &[]).await;
            client.option(option::SET_META_CONTEXT, &select).await;
            if let Some(data) = &second {
                client.option(option::SET_META_CONTEXT, data).await;
            }
            client.option(option::GO, &info_data(name, &[])).await;
            let reply = client.ask(0, 7, 0, 512).await;
            assert_eq!(reply.error(), errno, "{second:?} {name}");
        });
    }
}

#[test]
fn options_that_are_unknown_or_wrong_are_refused_and_the_next_one_is_heard() {
    talk(async |mut client| {
        client.greet(FLAGS).await;
        for (number, data, kind) in [
            (0, vec![], reply::ERR_UNSUP),
            (4, vec![], reply::ERR_UNSUP),
            (option::EXTENDED_HEADERS, vec![], reply::ERR_UNSUP),
            (0xffff_ffff, vec![1; 60_000], reply::ERR_UNSUP),
            (option::STARTTLS, vec![], reply::ERR_UNSUP),
            (option::STARTTLS, vec![1], reply::ERR_INVALID),
            (option::LIST, vec![1], reply::ERR_INVALID),
            (option::STRUCTURED_REPLY, vec![1], reply::ERR_INVALID),
            (option::GO, vec![], reply::ERR_INVALID),
            (option::GO, vec![0, 0, 0, 9, b'd', b'b'], reply::ERR_INVALID),
            (option::GO, [counted("db"), vec![0, 2, 0, 1]].concat(), reply::ERR_INVALID),
            (option::INFO, [info_data("db", &[1]), vec![0]].concat(), reply::ERR_INVALID),
            (option::INFO, info_data(&"x".repeat(4097), &[]), reply::ERR_INVALID),
            (option::INFO, info_data(&"x".repeat(4096), &[]), reply::ERR_UNKNOWN),
            (option::SET_META_CONTEXT, vec![0xff; 100], reply::ERR_INVALID),
            (option::LIST, vec![0; (64 << 10) + 1], reply::ERR_TOO_BIG),
            (77, vec![0; 1 << 20], reply::ERR_TOO_BIG),
        ] {
            assert_eq!(client.short_option(number, &data).await, kind, "option {number}");
        }
        assert_eq!(client.short_option(option::STRUCTURED_REPLY, &[]).await, reply::ACK);
    });
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    let absurd = [&b"IHAVEOPT"[..], &[0, 0, 0, 77], &((1u32 << 20) + 1).to_be_bytes()].concat();
    assert_protocol_error(end_after(&absurd), "1048577 bytes of data for option 77");
    let name = option_bytes(option::EXPORT_NAME, &vec![b'x'; (64 << 10) + 1]);
    assert_protocol_error(end_after(&name), "65537 bytes");
    assert_protocol_error(end_after(b"IHAVEOPS\0\0\0\x03\0\0\0\0"), "option magic");
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.greet(7).await;
    });
    assert_protocol_error(end, "client flags");
    let (end, ()) = connect(&store(), &Options::default(), async |mut client| {
        client.greet(0).await;
        client.send(&option_bytes(option::LIST, &[])).await;
    });
    assert_protocol_error(end, "understands replies");
}

#[test]
fn a_client_that_vanishes_is_noticed_wherever_it_stops() {
    let whole = [option_bytes(option::LIST, &[]), option_bytes(option::INFO, &[9; 20])].concat();
    for length in 0..whole.len() {
        let error = end_after(&whole[..length]).unwrap_err();
        assert_eq!(error.kind, DisconnectKind::Vanished, "after {length} bytes: {error}");
    }
    let (end, ()) = connect(&store(), &Options::default(), async |_| {});
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Vanished);
}

#[test]
fn a_server_that_requires_tls_talks_about_nothing_else() {
    let options = Options { tls: Tls::Required, ..Options::default() };
    let store = store();
    let (end, ()) = connect(&store, &options, async |mut client| {
        client.greet(FLAGS).await;
        for (number, data) in [
            (option::LIST, vec![]),
            (option::STRUCTURED_REPLY, vec![]),
            (option::INFO, info_data("db", &[])),
            (option::GO, info_data("db", &[])),
            (option::GO, vec![1]),
            (99, vec![]),
            (99, vec![0; (64 << 10) + 1]),
        ] {
            assert_eq!(client.short_option(number, &data).await, reply::ERR_TLS_REQD);
        }
        client.send(&option_bytes(option::EXPORT_NAME, b"db")).await;
        assert!(client.at_end().await);
    });
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Refused);
}

#[test]
fn an_upgrade_forgets_what_was_negotiated_in_the_clear() {
    let store = store();
    for tls in [Tls::Offered, Tls::Required] {
        let options = Options { tls, ..Options::default() };
        let (near, far) = duplex(1 << 16, usize::MAX);
        let server = async {
            let Negotiated::StartTls { transport, handshake } =
                negotiate(&*store, far, &options).await.unwrap()
            else {
                panic!("the client asked for TLS")
            };
            // The handshake would take place here.
            let Negotiated::Ready(session) =
                negotiate_secured(&*store, transport, handshake, &options).await.unwrap()
            else {
                panic!("the client chose an export")
            };
            assert!(!session.export().structured);
        };
        let client = async {
            let mut client = Client::new(near);
            client.greet(FLAGS).await;
            if tls == Tls::Offered {
                assert_eq!(client.short_option(option::STRUCTURED_REPLY, &[]).await, reply::ACK);
            }
            assert_eq!(client.short_option(option::STARTTLS, &[]).await, reply::ACK);
            assert_eq!(client.short_option(option::STARTTLS, &[]).await, reply::ERR_INVALID);
            let replies = client.option(option::GO, &info_data("db", &[])).await;
            assert_eq!(replies.last().unwrap().0, reply::ACK);
        };
        run(zip(server, client));
    }
}

#[test]
fn bytes_injected_before_a_tls_handshake_end_the_connection() {
    let options = Options { tls: Tls::Offered, ..Options::default() };
    let (end, ()) = connect(&store(), &options, async |mut client| {
        client.greet(FLAGS).await;
        let both = [option_bytes(option::STARTTLS, &[]), option_bytes(option::LIST, &[])].concat();
        client.send(&both).await;
    });
    assert_protocol_error(end, "before the TLS handshake");
}

#[test]
fn serve_cannot_upgrade_and_says_so() {
    let options = Options { tls: Tls::Offered, ..Options::default() };
    let (near, far) = duplex(1 << 16, usize::MAX);
    let store = store();
    let client = async {
        let mut client = Client::new(near);
        client.greet(FLAGS).await;
        assert_eq!(client.short_option(option::STARTTLS, &[]).await, reply::ACK);
        assert!(client.at_end().await);
    };
    let (end, ()) = run(zip(serve(&*store, far, &options), client));
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Refused);
}
