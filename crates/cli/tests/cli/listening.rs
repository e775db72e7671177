//! Where a server listens: unix sockets, loopback, and what a service manager passes; never where
//! strangers could come in.

use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};

use crate::support::{Folder, PATIENCE, has_tls, nbd, program};

#[test]
fn addresses_that_strangers_reach_are_refused() {
    let folder = Folder::with_store();
    for address in ["0.0.0.0:10809", "[::]:10809", "192.0.2.1:10809"] {
        let words = format!("serve s.mj --nbd tcp:{address}");
        folder.refused(&words, &[address, "no TLS", "127.0.0.1"]);
    }
    folder.misused("serve s.mj --nbd /tmp/x.sock", &["/tmp/x.sock", "unix:PATH"]);
    folder.misused("serve s.mj --nbd tcp:127.0.0.1", &["tcp:HOST:PORT"]);
    assert!(!folder.path("s.mj.ctl").exists());
}

#[test]
fn a_program_without_tls_says_how_to_build_it_with() {
    if has_tls() {
        println!("skipped a_program_without_tls_says_how_to_build_it_with: needs one without");
        return;
    }
    let folder = Folder::with_store();
    for words in ["--tls-psk keys.psk", "--tls-certificates pki --tls-verify-client"] {
        for address in ["unix:n.sock", "tcp:127.0.0.1:0", "tcp:0.0.0.0:0"] {
            let words = format!("serve s.mj --nbd {address} {words}");
            folder.refused(&words, &["without TLS", "--features tls"]);
        }
    }
    folder.misused("serve s.mj --tls-verify-client", &["--tls-certificates"]);
    folder.misused("serve s.mj --tls-psk a --tls-certificates b", &["cannot be used with"]);
    assert!(!folder.path("s.mj.ctl").exists());
}

#[test]
fn several_doors_lead_to_one_store() {
    let folder = Folder::with_store();
    let server = folder.serve("--nbd unix:other.sock --nbd tcp:127.0.0.1:0");
    assert_eq!(server.ready.split_whitespace().count(), 4, "{}", server.ready);
    assert!(server.ready.contains("nbd://127.0.0.1:"), "{}", server.ready);
    server.client("v").write(0, 0, &[7; 4096]).unwrap();
    let mut other = nbd::Client::connect(&folder.path("other.sock"), "");
    assert_eq!(other.read(0, 4096).unwrap(), [7; 4096], "the only volume is the default one");
    server.stop();
}

#[test]
fn the_default_socket_is_beside_the_store() {
    let folder = Folder::with_store();
    let server = folder.start(folder.command("serve s.mj"));
    nbd::Client::connect(&folder.path("s.mj.sock"), "v").leave();
    server.stop();
    assert!(!folder.path("s.mj.sock").exists());
}

#[test]
fn a_service_manager_passes_sockets_and_hears_of_readiness() {
    let folder = Folder::with_store();
    let listener = UnixListener::bind(folder.path("passed.sock")).unwrap();
    let manager = UnixDatagram::bind(folder.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec env LISTEN_PID=$$ LISTEN_FDS=1 \"$0\" serve s.mj 3<&0"])
        .arg(program())
        .current_dir(folder.path(""))
        .env("MJOLNIR_WARM_LOG", folder.warm_path())
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let server = folder.start_activated(command);
    let mut message = [0; 64];
    let count = manager.recv(&mut message).unwrap();
    assert_eq!(&message[..count], b"READY=1\n");
    assert!(!folder.path("s.mj.sock").exists(), "it serves what was passed");
    let mut client = nbd::Client::connect(&folder.path("passed.sock"), "v");
    client.write(0, 0, &[1; 4096]).unwrap();
    server.stop();
    let count = manager.recv(&mut message).unwrap();
    assert_eq!(&message[..count], b"STOPPING=1\n");
    assert!(folder.path("passed.sock").exists(), "the manager's socket is not ours to remove");
    assert_eq!(std::fs::read(folder.path("server.out")).unwrap(), b"", "it may be lent for data");
}
