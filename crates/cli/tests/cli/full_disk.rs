//! The disk below a sparse store is full, or a resource limit ends the file: the command or the
//! client is told, nothing that was acknowledged is lost, and once there is room the store works
//! again. If the disk is enlarged below a served store, the server goes on by itself.

use std::process::Command;

use crate::real_support::tools;
use crate::support::{Folder, nbd, pattern};

const PIECE: usize = 1 << 20;

/// Writes until an error comes; returns how many pieces were flushed.
fn fill(client: &mut nbd::Client) -> u64 {
    for piece in 0..40 {
        let wrote = client.write(0, piece * PIECE as u64, &pattern(piece, PIECE));
        if wrote.and_then(|()| client.flush()).is_err() {
            return piece;
        }
    }
    panic!("the disk never gets full");
}

fn verify(folder: &Folder, pieces: u64) {
    let server = folder.serve("");
    let mut client = server.client("big");
    for piece in 0..pieces {
        let read = client.read(piece * PIECE as u64, PIECE as u32).unwrap();
        assert!(read == pattern(piece, PIECE), "piece {piece}");
    }
    client.write(0, 50 << 20, &pattern(99, PIECE)).unwrap();
    client.flush().unwrap();
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn a_limit_on_file_sizes_is_told_and_loses_nothing() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj big --size 1G");
    // `ulimit -f` counts 512 bytes or 1 KiB, by shell: 16 or 32 MiB.
    let server = folder.serve_after("ulimit -f 32768");
    let pieces = fill(&mut server.client("big"));
    assert!((4..32).contains(&pieces), "{pieces} MiB were written");
    server.wait_for("takes no more changes");
    let stats = folder.ok("stats s.mj");
    assert!(stats.contains("FAILED"), "{stats}");
    let mut client = server.client("big");
    assert!(client.read(0, PIECE as u32).unwrap() == pattern(0, PIECE), "it is still readable");
    folder.refused("volume create s.mj w --size 1M", &["takes no more changes"]);
    folder.refused("check s.mj", &["a check of it now", "takes no more changes"]);
    drop(client);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait(), Some(1), "a failed store does not end well");
    verify(&folder, pieces);
}

/// Unmounts when dropped.
struct Mounted<'a>(&'a Folder);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path("small")).status();
    }
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let folder = Folder::empty();
    let small = folder.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = || {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=16M", "tmpfs"]).arg(&small);
        command.output().is_ok_and(|output| output.status.success())
    };
    if !mount() {
        tools::skip("a_full_disk_is_told_and_loses_nothing", "to mount a tmpfs");
        return;
    }
    let mounted = Mounted(&folder);
    std::os::unix::fs::symlink("small/s.mj", folder.path("s.mj")).unwrap();
    folder.refused("format small/p.mj --size 64M --preallocate", &["p.mj", "space"]);
    assert!(!folder.path("small/p.mj").exists());
    folder.ok("format small/s.mj --size 64M");
    folder.ok("volume create s.mj big --size 1G");
    let server = folder.serve("--device-wait 2");
    let mut client = server.client("big");
    let pieces = fill(&mut client);
    assert!((4..16).contains(&pieces), "{pieces} MiB were written");
    server.wait_for("no space below the store");
    assert!(client.read(0, PIECE as u32).unwrap() == pattern(0, PIECE), "it is still readable");
    let stats = folder.ok("stats s.mj");
    assert!(stats.contains("WAITING: there has been no space below the store"), "{stats}");
    assert_eq!(client.write(0, 60 << 20, &pattern(1, PIECE)), Err(nbd::ENOSPC));
    let request =
        |at| format!("{},a,0,Write,{},4096,100\n", 128_166_372_000_000_000 + at, at * 4096);
    std::fs::write(folder.path("a.csv"), (0..200_000u64).map(request).collect::<String>()).unwrap();
    let parts = ["writing small/a.log: No space left", "nothing is left of it"];
    folder.refused("trace convert a.csv small/a.log --to fio-v3", &parts);
    let mut larger = Command::new("mount");
    larger.args(["-o", "remount,size=80M"]).arg(&small);
    assert!(larger.status().unwrap().success());
    server.wait_for("the device works again");
    for piece in 0..20 {
        client.write(0, piece * PIECE as u64, &pattern(piece, PIECE)).unwrap();
        client.flush().unwrap();
    }
    drop(client);
    server.stop();
    verify(&folder, 20);
    drop(mounted);
}
