//! Clients that stall in a TLS handshake, send garbage for one, or smuggle bytes past it are hung
//! up on; one that is secured already notices nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mjolnir_nbd::protocol::{OPTION_MAGIC, option, option_reply_type as reply};

use crate::real_support::keys::Keys;
use crate::real_support::secured::{self, Secured};
use crate::real_support::store::TestStore;
use crate::real_support::tools;

/// A client in the clear, past the greeting.
fn connect(store: &TestStore) -> UnixStream {
    let mut stream = UnixStream::connect(store.path("n.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream
}

fn option_bytes(number: u32) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &[0; 4]].concat()
}

/// What the server says to an option, as the type of its reply.
fn ask(stream: &mut UnixStream, number: u32) -> u32 {
    stream.write_all(&option_bytes(number)).unwrap();
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[16..].try_into().unwrap());
    stream.read_exact(&mut vec![0; length as usize]).unwrap();
    u32::from_be_bytes(head[12..16].try_into().unwrap())
}

/// Reads until the server hangs up; it may have said a TLS alert.
fn hung_up_on(mut stream: UnixStream) {
    let mut said = Vec::new();
    // What was not read by the server makes this end a reset.
    let _ = stream.read_to_end(&mut said);
    assert!(said.len() < 100, "{said:?}");
}

#[test]
fn handshakes_that_go_nowhere_harm_nobody() {
    let test = "handshakes_that_go_nowhere_harm_nobody";
    if !tools::present(test, &["psktool", secured::TOOL]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::psk());
    let file = keys.word("psk/keys.psk");
    let server = store.serve_with(&format!("--tls-psk {file} --negotiation-time 2"));
    let uri = format!(
        "nbds+unix://alice@/v?socket={}&tls-psk-file={file}",
        store.path("n.sock").display()
    );
    let mut client = Secured::connect(&uri);

    // Some stall before the handshake, some in the middle of it.
    let stalled: Vec<UnixStream> = (0..100)
        .map(|n| {
            let mut stream = connect(&store);
            if n % 2 == 0 {
                assert_eq!(ask(&mut stream, option::STARTTLS), reply::ACK);
                // The beginning of a ClientHello that announces more.
                stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..n % 11]).unwrap();
            }
            stream
        })
        .collect();
    client.assert_unharmed();
    for garbage in [vec![0; 1 << 20], vec![0xff; 3], b"GET / HTTP/1.0\r\n\r\n".to_vec()] {
        let mut stream = connect(&store);
        assert_eq!(ask(&mut stream, option::STARTTLS), reply::ACK);
        let _ = stream.write_all(&garbage);
        hung_up_on(stream);
        client.assert_unharmed();
    }
    server.wait_for("TLS handshake failed");
    // Options sent along with the one that asks for TLS would be taken for secured ones.
    let mut smuggler = connect(&store);
    let both = [option_bytes(option::STARTTLS), option_bytes(option::LIST)].concat();
    smuggler.write_all(&both).unwrap();
    hung_up_on(smuggler);
    server.wait_for("before the TLS handshake");
    // In the clear there is nothing to be had.
    let mut plain = connect(&store);
    for number in [option::LIST, option::STRUCTURED_REPLY, option::GO, option::INFO, 99] {
        assert_eq!(ask(&mut plain, number), reply::ERR_TLS_REQD);
    }
    drop(plain);
    stalled.into_iter().for_each(hung_up_on);
    client.assert_unharmed();
    client.leave();
    server.stop();
}

#[test]
fn addresses_that_others_reach_are_served_with_tls_alone() {
    let test = "addresses_that_others_reach_are_served_with_tls_alone";
    if !tools::present(test, &["psktool", "nbdinfo"]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::psk());
    let file = keys.word("psk/keys.psk");
    store.refused("serve s.mj --nbd tcp:0.0.0.0:0", &["0.0.0.0", "--tls-psk"]);
    let server = store.serve_with(&format!("--nbd tcp:0.0.0.0:0 --tls-psk {file}"));
    let uri = format!("nbds://alice@127.0.0.1:{}/v?tls-psk-file={file}", server.port());
    assert_eq!(tools::ok("nbdinfo", &["--size", &uri]).trim(), "16777216");
    server.stop();
}
