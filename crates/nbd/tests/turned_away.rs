//! A client that cannot be served is told why, in the reply to whatever it asks, until it leaves.

mod support;

use futures_lite::future::zip;
use mjolnir_nbd::protocol::{OPTION_SKIP_BYTES_MAX, option, option_reply_type as reply};
use mjolnir_nbd::{Disconnect, DisconnectKind, Options, turn_away};
use support::client::{Client, FLAGS, info_data, option_bytes};
use support::memory::MemoryStore;
use support::pipe::duplex;
use support::{connect, run};

const WHY: &str = "there are 4 clients already";

/// How it ends for the server.
fn end_of<F: Future<Output = ()>>(talk: impl FnOnce(Client) -> F) -> Result<(), Disconnect> {
    let (near, far) = duplex(1 << 16, usize::MAX);
    let options = Options::default();
    run(zip(turn_away(far, &options, WHY), talk(Client::new(near)))).0
}

#[test]
fn every_option_is_answered_with_the_reason() {
    let end = end_of(async |mut client| {
        client.greet(FLAGS).await;
        let (info, long) = (info_data("v", &[]), vec![0; 100_000]);
        for (number, data) in [
            (option::STRUCTURED_REPLY, &[][..]),
            (option::STARTTLS, &[]),
            (option::LIST, &[]),
            (option::GO, &info),
            (77, &long),
        ] {
            let told = vec![(reply::ERR_POLICY, WHY.as_bytes().to_vec())];
            assert_eq!(client.option(number, data).await, told, "option {number}");
        }
        assert_eq!(client.short_option(option::ABORT, &[]).await, reply::ACK);
        assert!(client.at_end().await);
    });
    end.expect("it left in order");
}

#[test]
fn where_there_is_no_reply_the_connection_ends() {
    let end = end_of(async |mut client| {
        client.greet(FLAGS).await;
        client.send(&option_bytes(option::EXPORT_NAME, b"v")).await;
        assert!(client.at_end().await);
    });
    let end = end.unwrap_err();
    assert_eq!((end.kind, end.message.as_str()), (DisconnectKind::Refused, WHY));
}

#[test]
fn one_that_asks_for_ever_is_not_heard_for_ever() {
    let end = end_of(async |mut client| {
        client.greet(FLAGS).await;
        for _ in 0..16 {
            assert_eq!(client.short_option(option::LIST, &[]).await, reply::ERR_POLICY);
        }
        assert!(client.at_end().await);
    });
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Refused);
}

/// What it announces is too much to be skipped: it is told so before the connection ends.
#[test]
fn who_announces_too_much_is_told_so() {
    let store = std::rc::Rc::new(MemoryStore::with_default(1 << 20));
    let (end, ()) = connect(&store, &Options::default(), async |mut client| {
        client.greet(FLAGS).await;
        let mut head = option_bytes(option::LIST, &[]);
        head[12..].copy_from_slice(&(OPTION_SKIP_BYTES_MAX + 1).to_be_bytes());
        client.send(&head).await;
        let [(kind, why)] = &client.option_replies(option::LIST).await[..] else { panic!() };
        assert_eq!((*kind, &why[..]), (reply::ERR_TOO_BIG, &b"the option's data are too long"[..]));
        assert!(client.at_end().await);
    });
    assert_eq!(end.unwrap_err().kind, DisconnectKind::Protocol);
}
