//! A store served for reading only is not written to, and says so to whoever tries.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::nbd::EPERM;
use crate::support::{Folder, pattern, program};

#[test]
fn a_store_served_for_reading_stays_as_it_was() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 65536)).unwrap();
    client.flush().unwrap();
    // The log past the last checkpoint has to be replayed.
    server.kill();
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    let server = folder.serve("--read-only");
    let mut client = server.client("v");
    assert!(client.read(0, 65536).unwrap() == pattern(1, 65536));
    assert_eq!(client.write(0, 0, &[0; 4096]), Err(EPERM));
    assert_eq!(client.trim(0, 4096), Err(EPERM));
    for words in ["volume create s.mj w --size 1M", "volume delete s.mj v", "gc run s.mj"] {
        folder.refused(words, &["reading only"]);
    }
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    assert!(!folder.ok("stats s.mj").contains("FAILED"), "that it takes no changes was asked for");
    server.stop();
    for words in ["volume list s.mj", "stats s.mj", "check s.mj", "scrub s.mj"] {
        folder.ok(words);
    }
    assert!(std::fs::read(folder.path("s.mj")).unwrap() == before, "not a byte has changed");
}

#[test]
fn another_server_is_told_that_the_store_is_served() {
    let folder = Folder::with_store();
    let server = folder.serve("--read-only");
    let other = "serve s.mj --read-only --nbd unix:other.sock";
    folder.refused(other, &["s.mj is being served already", "stop that server"]);
    server.stop();
}

/// There is nowhere to put a control socket.
#[test]
fn a_store_is_served_for_reading_where_nothing_can_be_written() {
    let folder = Folder::empty();
    let chmod = |name: &str, mode| {
        std::fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(folder.path("ro")).unwrap();
    folder.ok("format ro/s.mj --size 64M");
    folder.ok("volume create ro/s.mj v --size 16M");
    let mut command = folder.command("serve ro/s.mj --read-only --nbd unix:n.sock");
    // Root may write there all the same, so it is somebody else then, who may write elsewhere.
    if rustix::process::geteuid().is_root() {
        std::fs::copy(program(), folder.path("mjolnir")).unwrap();
        chmod(".", 0o777);
        command = Command::new("setpriv");
        command.current_dir(folder.path("."));
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "./mjolnir"]);
        command.args(["serve", "ro/s.mj", "--read-only", "--nbd", "unix:n.sock"]);
    }
    chmod("ro/s.mj", 0o444);
    chmod("ro", 0o555);
    let server = folder.start(command);
    assert!(server.client("v").read(0, 65536).unwrap() == [0; 65536]);
    server.wait_for("s.mj.ctl: Permission denied");
    server.wait_for("without a control socket");
    assert!(folder.ok("volume list ro/s.mj").contains("16 MiB"));
    server.stop();
    chmod("ro", 0o755);
}
