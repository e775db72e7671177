//! The control socket is for the store's owner alone, is found through links, and is replaced if
//! it is stale.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Folder, nbd, pattern};

#[test]
fn sockets_are_for_their_owner_unless_told_otherwise() {
    let folder = Folder::with_store();
    let mode = |name: &str| folder.path(name).metadata().unwrap().permissions().mode() & 0o777;
    let server = folder.serve("--socket-mode 660");
    assert_eq!((mode("s.mj.ctl"), mode("n.sock")), (0o600, 0o660));
    server.stop();
    let server = folder.serve("");
    assert_eq!((mode("s.mj.ctl"), mode("n.sock")), (0o600, 0o600));
    server.stop();
}

#[test]
fn a_server_is_found_through_a_link_to_its_store() {
    let folder = Folder::with_store();
    std::os::unix::fs::symlink("s.mj", folder.path("link")).unwrap();
    let server = folder.serve("");
    folder.ok("volume create link w --size 1M");
    assert!(folder.ok("stats link").contains("served"));
    server.stop();
}

#[test]
fn a_stale_socket_is_no_server() {
    let folder = Folder::with_store();
    drop(std::os::unix::net::UnixListener::bind(folder.path("s.mj.ctl")).unwrap());
    assert!(folder.path("s.mj.ctl").exists());
    assert!(folder.ok("stats s.mj").contains("at rest"));
    let server = folder.serve("");
    assert!(folder.ok("stats s.mj").contains("served"));
    server.stop();
    assert!(!folder.path("s.mj.ctl").exists());
}

#[test]
fn something_else_in_its_place_is_kept() {
    let folder = Folder::with_store();
    std::fs::write(folder.path("s.mj.ctl"), "mine").unwrap();
    folder.refused("serve s.mj", &["s.mj.ctl", "not a socket"]);
    assert_eq!(std::fs::read(folder.path("s.mj.ctl")).unwrap(), b"mine");
    std::fs::write(folder.path("n.sock"), "mine").unwrap();
    std::fs::remove_file(folder.path("s.mj.ctl")).unwrap();
    folder.refused("serve s.mj --nbd unix:n.sock", &["n.sock", "not a socket"]);
    assert!(folder.ok("check s.mj").contains("no problems"));
}

#[test]
fn a_volume_that_is_deleted_or_shrunk_in_use_fails_its_clients_requests() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj w --size 8M");
    let server = folder.serve("");
    let (mut v, mut w) = (server.client("v"), server.client("w"));
    v.write(0, 0, &pattern(1, 65536)).unwrap();
    folder.ok("snapshot create s.mj v@a");
    let reader = server.client("v@a");
    let used = ["in use by 1 client", "--force"];
    folder.refused("volume delete s.mj v --snapshots", &used);
    folder.refused("snapshot delete s.mj v@a", &used);
    reader.leave();
    folder.ok("snapshot delete s.mj v@a");
    folder.refused("volume delete s.mj v", &used);
    v.write(0, 0, &pattern(1, 65536)).unwrap();
    folder.ok("volume delete s.mj v --force");
    assert_eq!(v.read(0, 4096), Err(nbd::ESHUTDOWN));
    assert_eq!(v.write(0, 0, &[0; 4096]), Err(nbd::ESHUTDOWN));
    w.write(0, 0, &pattern(2, 65536)).unwrap();
    w.write(0, 5 << 20, &pattern(4, 8192)).unwrap();
    folder.refused("volume resize s.mj w --size 1M", &["8 KiB stored past", "--shrink"]);
    assert!(w.read(5 << 20, 8192).unwrap() == pattern(4, 8192), "nothing is lost unasked");
    folder.refused("volume resize s.mj w --size 1M --shrink", &used);
    folder.ok("volume resize s.mj w --size 1M --shrink --force");
    assert_eq!(w.write(0, 4 << 20, &[0; 4096]), Err(nbd::ENOSPC), "as past any export's end");
    assert_eq!(w.read(4 << 20, 4096), Err(nbd::EINVAL));
    assert!(w.read(0, 65536).unwrap() == pattern(2, 65536));
    folder.ok("volume rename s.mj w x");
    w.write(0, 0, &pattern(3, 65536)).unwrap();
    assert!(server.client("x").read(0, 65536).unwrap() == pattern(3, 65536));
    server.stop();
}

#[test]
fn who_asks_a_server_that_says_nothing_is_told_so() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    server.signal(Signal::STOP);
    let asking = std::thread::scope(|scope| {
        let asking = scope.spawn(|| folder.run("volume list s.mj"));
        std::thread::sleep(std::time::Duration::from_secs(7));
        server.signal(Signal::CONT);
        asking.join().expect("it ends")
    });
    assert!(asking.err.contains("has said nothing for 5 seconds"), "{}", asking.err);
    assert!(asking.out.contains('v'), "and it has its answer: {}", asking.out);
    server.stop();
}
