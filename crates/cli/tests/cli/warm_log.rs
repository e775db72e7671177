//! What was acknowledged survives `kill -9`, flushed or not: a client that reconnects finds all of it, under a
//! flush that says ok, however often that happens.

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Folder, pattern};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 600;

#[test]
fn acknowledged_writes_survive_every_kill() {
    let folder = Folder::with_store();
    // What each block was last acknowledged with, and what may have come after it.
    let blocks: Vec<Mutex<(u64, u64)>> = (0..BLOCKS).map(|_| Mutex::new((0, 0))).collect();
    let mut brought_back = 0;
    for round in 0..12u64 {
        let server = folder.serve("");
        brought_back += u64::from(server.log().contains("had acknowledged and not written"));
        let mut client = server.client("v");
        client.flush().unwrap();
        for (block, of) in (0..).zip(&blocks) {
            let (acknowledged, sent) = *of.lock().unwrap();
            let held = client.read(block * BLOCK, BLOCK as u32).unwrap();
            let is = |tag: u64| match tag {
                0 => held.iter().all(|byte| *byte == 0),
                tag => held == pattern(tag, BLOCK as usize),
            };
            assert!(is(acknowledged) || is(sent), "round {round}: block {block} is old again");
            let now = if is(sent) { sent } else { acknowledged };
            *of.lock().unwrap() = (now, now);
        }
        // Three clients write, and never flush, until the server is gone.
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for part in 0..3 {
                let (mut client, blocks, ends) = (server.client("v"), &blocks, &ends);
                scope.spawn(move || {
                    for turn in 0.. {
                        let block = part * (BLOCKS / 3) + turn * 7 % (BLOCKS / 3);
                        let tag = 1 + round * 1_000_000 + part * 100_000 + turn;
                        blocks[block as usize].lock().unwrap().1 = tag;
                        let data = pattern(tag, BLOCK as usize);
                        if ends.load(Ordering::Relaxed) || !client.try_write(block * BLOCK, &data) {
                            return;
                        }
                        blocks[block as usize].lock().unwrap().0 = tag;
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(60 + 17 * round));
            server.kill();
            ends.store(true, Ordering::Relaxed);
        });
    }
    assert!(brought_back >= 6, "{brought_back} of 11 restarts found something");
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn a_command_brings_back_what_a_server_left_and_an_orderly_end_leaves_nothing() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 65536)).unwrap();
    server.kill();
    assert_eq!(folder.warm_files(), 1);
    let checked = folder.ok("check s.mj");
    assert!(checked.contains("brought back when the store is opened for writing"), "{checked}");
    let created = folder.run("snapshot create s.mj v@after");
    assert!(created.err.contains("had acknowledged and not written"), "{created:?}");
    assert_eq!(folder.warm_files(), 0);
    let server = folder.serve("");
    let mut client = server.client("v@after");
    assert!(client.read(0, 65536).unwrap() == pattern(1, 65536));
    assert_eq!(folder.warm_files(), 1);
    server.stop();
    assert_eq!(folder.warm_files(), 0);
}

/// A store with changes that only the warm log of its dead server holds, and what of it was copied before.
fn killed_after_a_copy() -> Folder {
    let folder = Folder::with_store();
    folder.ok("checkpoint s.mj");
    let server = folder.serve("");
    std::fs::copy(folder.path("s.mj"), folder.path("copy.mj")).unwrap();
    // While the server runs, what it keeps is its own, and nobody else is bothered with it.
    let said = folder.run("check copy.mj");
    assert!(said.code == Some(0) && !said.out.contains(".warm"), "{said:?}");
    server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
    server.kill();
    folder
}

const HOLDS: &str = ".warm holds 1 change that a server acknowledged";

#[test]
fn a_copied_store_takes_nothing_from_the_server_of_the_original() {
    let folder = killed_after_a_copy();
    let said = folder.run("volume list copy.mj");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains(HOLDS) && said.err.contains("`mv "), "{said:?}");
    let before = std::fs::read(folder.path("copy.mj")).unwrap();
    let parts = ["not opened for writing", HOLDS, "`mv ", "--warm-log off"];
    folder.refused("volume create copy.mj w --size 1M", &parts);
    assert!(std::fs::read(folder.path("copy.mj")).unwrap() == before, "something was written");
    assert_eq!(folder.warm_files(), 1);
    // Without a warm log it is served, and what is left stays for the original.
    let server = folder.start(folder.command("serve copy.mj --nbd unix:n.sock --warm-log off"));
    let held = server.client("v").read(0, 65536).unwrap();
    assert!(held.iter().all(|byte| *byte == 0), "it was copied before that was written");
    server.kill();
    assert_eq!(folder.warm_files(), 1);
    let said = folder.run("volume create copy.mj w --size 1M");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "it went its own way");
    let server = folder.serve("");
    assert!(server.log().contains("1 change that its last server"), "{}", server.log());
    assert!(server.client("v").read(0, 65536).unwrap() == pattern(1, 65536));
}

/// As when its file system is mounted again, or its disk plugged in again.
#[test]
fn a_store_under_another_number_is_refused_until_its_warm_log_is_renamed_as_is_said() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
    server.kill();
    std::fs::copy(folder.path("s.mj"), folder.path("moved.mj")).unwrap();
    std::fs::rename(folder.path("moved.mj"), folder.path("s.mj")).unwrap();
    assert!(folder.ok("check s.mj").contains(HOLDS));
    let said = folder.refused("serve s.mj", &["not opened for writing", HOLDS]);
    let command = said.split('`').find(|part| part.starts_with("mv ")).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    let server = folder.serve("");
    assert!(server.log().contains("1 change that its last server"), "{}", server.log());
    assert!(server.client("v").read(0, 65536).unwrap() == pattern(1, 65536));
    server.stop();
    assert_eq!(folder.warm_files(), 0);
}

/// The copy has the inode of the store that was served, and comes to the same epoch.
#[test]
fn an_older_copy_in_the_place_of_the_store_takes_nothing_and_says_what_is_left() {
    let folder = Folder::with_store();
    std::fs::copy(folder.path("s.mj"), folder.path("older.mj")).unwrap();
    let server = folder.serve("");
    server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
    server.kill();
    // It is served once, elsewhere, and then put in the place of the store.
    folder.start(folder.command("serve older.mj --nbd unix:n.sock --warm-log off")).kill();
    let older = std::fs::read(folder.path("older.mj")).unwrap();
    let inode = |name: &str| folder.path(name).metadata().unwrap().ino();
    let before = inode("s.mj");
    std::fs::write(folder.path("s.mj"), older).unwrap();
    assert_eq!(inode("s.mj"), before);
    let tells = |said: &str| {
        for part in
            [&folder.warm_path().display().to_string(), ".warm holds 1 change that", "older copy"]
        {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
    };
    tells(&folder.ok("check s.mj"));
    assert_eq!(folder.warm_files(), 1, "nothing was removed");
    let server = folder.serve("");
    tells(&server.log());
    let held = server.client("v").read(0, 65536).unwrap();
    assert!(held.iter().all(|byte| *byte == 0), "it is of another history");
    server.stop();
    assert_eq!(folder.warm_files(), 0);
}

#[test]
fn a_server_without_such_memory_says_so() {
    let folder = Folder::with_store();
    let missing = folder.path("missing");
    let mut command = folder.command("serve s.mj --nbd unix:n.sock --warm-log off");
    command.env("MJOLNIR_WARM_LOG", missing);
    let server = folder.start(command);
    assert_eq!(server.log(), "", "it was asked to go without");
    assert_eq!(folder.warm_files(), 0);
}
