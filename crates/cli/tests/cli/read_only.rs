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

/// A command of another user than root, who may write anywhere; and elsewhere than in `ro`, so that this one can
/// make sockets there.
fn as_nobody(folder: &Folder, words: &str) -> Command {
    // Not copied by this process: what another test starts meanwhile would hold the copy open for writing until it
    // is executed itself, and a file that is open for writing can't be.
    let copied = Command::new("cp").arg(program()).arg(folder.path("mjolnir")).status().unwrap();
    assert!(copied.success());
    chmod(folder, ".", 0o777);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "./mjolnir"]);
    command.args(words.split_whitespace()).current_dir(folder.path("."));
    command
}

fn chmod(folder: &Folder, name: &str, mode: u32) {
    std::fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_server_is_told_that_the_store_is_served() {
    let folder = Folder::with_store();
    let server = folder.serve("--read-only");
    let other = "serve s.mj --read-only --nbd unix:other.sock";
    folder.refused(other, &["s.mj is being served already", "stop that server"]);
    if rustix::process::geteuid().is_root() {
        chmod(&folder, "s.mj", 0o444);
        let output = as_nobody(&folder, other).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("s.mj.ctl is another user's"), "{said}");
    }
    server.stop();
}

/// There is nowhere to put a control socket.
#[test]
fn a_store_is_served_for_reading_where_nothing_can_be_written() {
    let folder = Folder::empty();
    std::fs::create_dir(folder.path("ro")).unwrap();
    folder.ok("format ro/s.mj --size 64M");
    folder.ok("volume create ro/s.mj v --size 16M");
    chmod(&folder, "ro/s.mj", 0o444);
    chmod(&folder, "ro", 0o555);
    let command = |words: &str| match rustix::process::geteuid().is_root() {
        true => as_nobody(&folder, words),
        false => folder.command(words),
    };
    let beside = command("serve ro/s.mj --read-only").output().unwrap();
    let said = String::from_utf8(beside.stderr).unwrap();
    assert!(
        said.contains("s.mj.sock: Permission denied") && said.contains("--nbd unix:PATH"),
        "{said}"
    );
    assert!(!said.contains("warning"), "it is not served: {said}");
    let server = folder.start(command("serve ro/s.mj --read-only --nbd unix:n.sock"));
    assert!(server.client("v").read(0, 65536).unwrap() == [0; 65536]);
    server.wait_for("s.mj.ctl: Permission denied");
    server.wait_for("without a control socket");
    assert!(folder.ok("volume list ro/s.mj").contains("16 MiB"));
    server.stop();
    chmod(&folder, "ro", 0o755);
}
