//! A store whose path is longer than the address of a unix socket is served and tended like any
//! other, by its whole path and through a short one.

use crate::support::{Folder, nbd, pattern};

/// A folder 400 bytes deep with a store `s.mj` and a volume `v` in it, and its path from the outer
/// one.
fn deep() -> (Folder, String) {
    let folder = Folder::empty();
    let inner = format!("{}/{}", "d".repeat(200), "e".repeat(200));
    std::fs::create_dir_all(folder.path(&inner)).unwrap();
    folder.ok(&format!("format {inner}/s.mj --size 64M"));
    folder.ok(&format!("volume create {inner}/s.mj v --size 16M"));
    (folder, inner)
}

#[test]
fn a_deep_store_is_served_and_found() {
    let (folder, inner) = deep();
    let serve = format!("serve {inner}/s.mj --nbd unix:n.sock");
    let server = folder.start(folder.command(&serve));
    folder.ok(&format!("snapshot create {inner}/s.mj v@a"));
    for store in [format!("{inner}/s.mj"), folder.path(&inner).join("s.mj").display().to_string()] {
        assert!(folder.ok(&format!("stats {store}")).contains("served"));
    }
    server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
    folder.refused(&serve, &["is being served already", "s.mj.ctl", "answers"]);
    server.stop();
    assert!(!folder.path(&inner).join("s.mj.ctl").exists());
    let left: Vec<_> = std::fs::read_dir(folder.path(&inner)).unwrap().collect();
    assert_eq!(left.len(), 1, "only the store is left: {left:?}");

    // A server that was killed leaves a stale socket, which is replaced.
    folder.start(folder.command(&serve)).kill();
    assert!(folder.path(&inner).join("s.mj.ctl").exists());
    assert!(folder.ok(&format!("stats {inner}/s.mj")).contains("at rest"));
    let server = folder.start(folder.command(&serve));
    assert!(server.client("v").read(0, 65536).unwrap() == pattern(1, 65536));
    server.stop();
}

#[test]
fn a_deep_socket_for_clients_works_and_is_warned_of() {
    let (folder, inner) = deep();
    let server = folder.start(folder.command(&format!("serve {inner}/s.mj")));
    server.wait_for("longer than the 107 bytes");
    std::os::unix::fs::symlink(folder.path(&inner), folder.path("short")).unwrap();
    let mut client = nbd::Client::connect(&folder.path("short/s.mj.sock"), "v");
    client.write(0, 0, &pattern(2, 65536)).unwrap();
    assert!(client.read(0, 65536).unwrap() == pattern(2, 65536));
    assert!(folder.ok("stats short/s.mj").contains("served"));
    server.stop();
    assert!(!folder.path("short/s.mj.sock").exists());
}

#[test]
fn a_store_whose_name_leaves_no_room_for_a_socket_is_tended_at_rest() {
    let folder = Folder::empty();
    let name = "s".repeat(253);
    folder.ok(&format!("format {name} --size 64M"));
    folder.ok(&format!("volume create {name} v --size 16M"));
    assert!(folder.ok(&format!("stats {name}")).contains("at rest"));
    folder.refused(&format!("serve {name} --nbd unix:n.sock"), &["File name too long"]);
}
