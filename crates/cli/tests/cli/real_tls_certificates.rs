//! TLS with certificates, by libnbd and QEMU: data comes and goes over TCP and the unix socket; who
//! trusts another authority, or is not trusted, is turned away, and the others go on.

use std::fs;

use crate::real_support::keys::{self, Keys};
use crate::real_support::secured::{self, Secured};
use crate::real_support::store::{Server, TestStore};
use crate::real_support::tools;

fn present(test: &str, more: &[&str]) -> bool {
    tools::present(test, &[&keys::TOOLS, more].concat())
}

fn tcp(server: &Server<'_>, folder: &str) -> String {
    format!("nbds://127.0.0.1:{}/v?tls-certificates={folder}", server.port())
}

fn unix(store: &TestStore, folder: &str) -> String {
    let socket = store.path("n.sock");
    format!("nbds+unix:///v?socket={}&tls-certificates={folder}", socket.display())
}

#[test]
fn libnbd_copies_in_and_out() {
    if !present("libnbd_copies_in_and_out", &["nbdcopy", "nbdinfo"]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::certificates());
    let words = format!("--nbd tcp:127.0.0.1:0 --tls-certificates {}", keys.word("server"));
    let server = store.serve_with(&words);
    let data: Vec<u8> = (0..16 << 20).map(|n: u32| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
    fs::write(store.path("in"), &data).unwrap();
    let (into, out) = (store.path("in"), store.path("out"));
    let name = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    tools::ok("nbdcopy", &[name(&into), tcp(&server, &keys.word("anonymous"))]);
    tools::ok("nbdcopy", &[unix(&store, &keys.word("anonymous")), name(&out)]);
    assert!(fs::read(out).unwrap() == data);
    let info = tools::ok("nbdinfo", &[tcp(&server, &keys.word("anonymous"))]);
    assert!(info.contains("with TLS, using structured"), "{info}");
    server.stop();
}

#[test]
fn qemu_copies_in_and_out() {
    if !present("qemu_copies_in_and_out", &["qemu-img"]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::certificates());
    let words = format!(
        "--nbd tcp:127.0.0.1:0 --tls-certificates {} --tls-verify-client",
        keys.word("server")
    );
    let server = store.serve_with(&words);
    let data: Vec<u8> = (0..16 << 20).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect();
    fs::write(store.path("in"), data).unwrap();
    let input = store.path("in");
    let port = server.port();
    let image = format!(
        "driver=raw,file.driver=nbd,file.host=127.0.0.1,file.port={port},file.export=v,\
         file.tls-creds=t"
    );
    let over_unix = format!(
        "driver=raw,file.driver=nbd,file.path={},file.export=v,file.tls-creds=t,\
         file.tls-hostname=localhost",
        store.path("n.sock").display()
    );
    let qemu = |folder: &str, words: &[&str]| {
        let credentials = format!("tls-creds-x509,id=t,dir={},endpoint=client", keys.word(folder));
        tools::run(
            tools::command("qemu-img")
                .arg(words[0])
                .args(["--object", &credentials])
                .args(&words[1..]),
        )
    };
    let input = format!("driver=raw,file.driver=file,file.filename={}", input.display());
    let said =
        qemu("client", &["convert", "--image-opts", "--target-image-opts", "-n", &input, &image]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = qemu("client", &["compare", "--image-opts", &input, &over_unix]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for folder in ["anonymous", "stranger"] {
        let said = qemu(folder, &["info", "--image-opts", &image]);
        assert_ne!(said.code, Some(0), "{folder}: {said:?}");
    }
    let said = tools::run(tools::command("qemu-img").args([
        "info",
        "--image-opts",
        &image.replace(",file.tls-creds=t", ""),
    ]));
    assert!(said.code != Some(0) && said.err.contains("TLS"), "{said:?}");
    server.stop();
}

#[test]
fn who_does_not_know_the_other_is_turned_away_and_the_others_go_on() {
    let test = "who_does_not_know_the_other_is_turned_away_and_the_others_go_on";
    if !present(test, &["nbdinfo", secured::TOOL]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::certificates());
    let words = format!(
        "--nbd tcp:127.0.0.1:0 --tls-certificates {} --tls-verify-client",
        keys.word("server")
    );
    let server = store.serve_with(&words);
    let mut client = Secured::connect(&tcp(&server, &keys.word("client")));
    let refused = |uri: &str| {
        let said = tools::run(tools::command("nbdinfo").arg(uri));
        assert_eq!(said.code, Some(1), "{uri}: {said:?}");
    };
    for uri in [
        tcp(&server, &keys.word("stranger")),
        tcp(&server, &keys.word("anonymous")),
        unix(&store, &keys.word("stranger")),
        format!("nbd://127.0.0.1:{}/v", server.port()),
        store.uri("v"),
    ] {
        refused(&uri);
        client.assert_unharmed();
    }
    let list = tools::run(tools::command("nbdinfo").args(["--list", &store.uri("")]));
    assert_eq!(list.code, Some(1), "names are not told in the clear: {list:?}");
    server.wait_for("TLS handshake failed");
    client.leave();
    server.stop();

    keys.revoke_client();
    let server = store.serve_with(&words);
    refused(&tcp(&server, &keys.word("client")));
    server.wait_for("certificate revoked");
    server.stop();
}

#[test]
fn keys_that_do_not_fit_are_refused_before_anything_is_served() {
    let test = "keys_that_do_not_fit_are_refused_before_anything_is_served";
    if !present(test, &[]) {
        return;
    }
    let (store, keys) = (TestStore::new("64M", "16M"), Keys::certificates());
    let folder = keys.word("server");
    let serve = format!("serve s.mj --nbd unix:n.sock --tls-certificates {folder}");
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        let key = keys.path("server/server-key.pem");
        fs::set_permissions(key, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o640);
    store.refused(&serve, &["server-key.pem", "640", "chmod 600"]);
    set_mode(0o600);
    fs::copy(keys.path("client/client-key.pem"), keys.path("server/server-key.pem")).unwrap();
    store.refused(&serve, &["server-key.pem", "not that of the certificate"]);
    fs::write(keys.path("server/server-key.pem"), "nonsense").unwrap();
    store.refused(&serve, &["server-key.pem", "no private key"]);
    fs::write(keys.path("server/server-cert.pem"), "nonsense").unwrap();
    store.refused(&serve, &["server-cert.pem", "no certificate"]);
    fs::remove_file(keys.path("server/server-cert.pem")).unwrap();
    store.refused(&serve, &["server-cert.pem", "No such file"]);
    assert!(!store.path("s.mj.ctl").exists() && !store.path("n.sock").exists());
}
