//! TLS with pre-shared keys, by libnbd and QEMU: data comes and goes over TCP and the unix socket;
//! a wrong key, an unknown name and no TLS at all are turned away, and the others go on.

use std::fs;

use crate::real_support::keys::Keys;
use crate::real_support::secured::{self, Secured};
use crate::real_support::store::{Server, TestStore};
use crate::real_support::tools;

fn tcp(server: &Server<'_>, name: &str, file: &str) -> String {
    format!("nbds://{name}@127.0.0.1:{}/v?tls-psk-file={file}", server.port())
}

fn unix(store: &TestStore, file: &str) -> String {
    let socket = store.path("n.sock");
    format!("nbds+unix://alice@/v?socket={}&tls-psk-file={file}", socket.display())
}

fn serve<'a>(store: &'a TestStore, keys: &Keys) -> Server<'a> {
    let words = format!("--nbd tcp:127.0.0.1:0 --tls-psk {}", keys.word("psk/keys.psk"));
    store.serve_with(&words)
}

#[test]
fn libnbd_copies_in_and_out() {
    if !tools::present("libnbd_copies_in_and_out", &["nbdcopy", "psktool"]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::psk());
    let server = serve(&store, &keys);
    let file = keys.word("psk/keys.psk");
    let data: Vec<u8> = (0..16 << 20).map(|n: u32| (n ^ (n >> 7) ^ (n >> 13)) as u8).collect();
    fs::write(store.path("in"), &data).unwrap();
    let (into, out) = (store.path("in"), store.path("out"));
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    tools::ok("nbdcopy", &[name(&into), unix(&store, &file)]);
    tools::ok("nbdcopy", &[tcp(&server, "alice", &file), name(&out)]);
    assert!(fs::read(out).unwrap() == data);
    server.stop();
}

#[test]
fn qemu_copies_in_and_out() {
    if !tools::present("qemu_copies_in_and_out", &["qemu-img", "psktool"]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::psk());
    let server = serve(&store, &keys);
    let data: Vec<u8> = (0..16 << 20).map(|n: u32| (n.wrapping_mul(n) >> 9) as u8).collect();
    fs::write(store.path("in"), data).unwrap();
    let input = format!("driver=raw,file.driver=file,file.filename={}", store.path("in").display());
    let image = format!(
        "driver=raw,file.driver=nbd,file.host=127.0.0.1,file.port={},file.export=v,\
         file.tls-creds=t",
        server.port()
    );
    let qemu = |folder: &str, words: &[&str]| {
        let folder = keys.word(folder);
        let credentials = format!("tls-creds-psk,id=t,dir={folder},username=alice,endpoint=client");
        tools::run(
            tools::command("qemu-img")
                .arg(words[0])
                .args(["--object", &credentials])
                .args(&words[1..]),
        )
    };
    let said =
        qemu("psk", &["convert", "--image-opts", "--target-image-opts", "-n", &input, &image]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = qemu("psk", &["compare", "--image-opts", &input, &image]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = qemu("wrong", &["info", "--image-opts", &image]);
    assert_ne!(said.code, Some(0), "{said:?}");
    server.stop();
}

#[test]
fn who_does_not_know_the_key_is_turned_away_and_the_others_go_on() {
    let test = "who_does_not_know_the_key_is_turned_away_and_the_others_go_on";
    if !tools::present(test, &["nbdinfo", "psktool", secured::TOOL]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::psk());
    let server = serve(&store, &keys);
    let right = fs::read_to_string(keys.path("psk/keys.psk")).unwrap();
    // A name that the server does not know, with a key that it does.
    fs::write(keys.path("mallory.psk"), right.replace("alice:", "mallory:")).unwrap();
    let mut client = Secured::connect(&tcp(&server, "alice", &keys.word("psk/keys.psk")));
    for uri in [
        tcp(&server, "alice", &keys.word("wrong/keys.psk")),
        tcp(&server, "mallory", &keys.word("mallory.psk")),
        unix(&store, &keys.word("wrong/keys.psk")),
        // Certificates, with the system's authorities.
        format!("nbds://127.0.0.1:{}/v", server.port()),
        format!("nbd://127.0.0.1:{}/v", server.port()),
        store.uri("v"),
    ] {
        let said = tools::run(tools::command("nbdinfo").arg(&uri));
        assert_eq!(said.code, Some(1), "{uri}: {said:?}");
        client.assert_unharmed();
    }
    server.wait_for("TLS handshake failed");
    let log = server.log();
    let secret = right.trim_end().rsplit_once(':').unwrap().1;
    assert!(!log.contains(secret), "secrets are not logged");
    client.leave();
    server.stop();
}
