//! What was acknowledged survives `kill -9`, flushed or not: a client that reconnects finds all of it, under a
//! flush that says ok, however often that happens.

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
    for command in ["check", "scrub", "stats"] {
        let said = folder.ok(&format!("{command} s.mj"));
        let waits = "had acknowledged and not written when it died wait";
        assert!(
            said.contains(waits) && said.contains(folder.warm_path().to_str().unwrap()),
            "{said}"
        );
        let waiting = &folder.json(&format!("{command} s.mj"))["waiting"];
        assert!(waiting["changes"].as_u64().unwrap() > 0, "{waiting}");
    }
    let created = folder.run("snapshot create s.mj v@after");
    assert!(created.err.contains("had acknowledged and not written"), "{created:?}");
    assert!(created.err.contains(folder.warm_path().to_str().unwrap()), "{created:?}");
    assert_eq!(folder.warm_files(), 0);
    let server = folder.serve("");
    let mut client = server.client("v@after");
    assert!(client.read(0, 65536).unwrap() == pattern(1, 65536));
    assert_eq!(folder.warm_files(), 1);
    server.stop();
    assert_eq!(folder.warm_files(), 0);
}

#[test]
fn a_copied_store_takes_nothing_from_the_server_of_the_original() {
    let folder = Folder::with_store();
    folder.ok("checkpoint s.mj");
    let server = folder.serve("");
    std::fs::copy(folder.path("s.mj"), folder.path("copy.mj")).unwrap();
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 65536)).unwrap();
    server.kill();
    let said = folder.run("volume list copy.mj");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    std::fs::rename(folder.path("copy.mj"), folder.path("s.mj")).unwrap();
    let server = folder.serve("");
    let held = server.client("v").read(0, 65536).unwrap();
    assert!(held.iter().all(|byte| *byte == 0), "it was copied before that was written");
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

/// The server was told of the folder, and nobody else is.
#[test]
fn a_command_that_was_not_told_of_the_folder_finds_what_is_there() {
    let folder = Folder::with_store();
    let untold = |words: &str| {
        let mut command = folder.command(words);
        command.env_remove("MJOLNIR_WARM_LOG");
        command
    };
    let place = folder.warm_path().display().to_string();
    let serve = format!("serve s.mj --nbd unix:n.sock --warm-log {place}");
    let kill_one = || {
        let server = folder.start(untold(&serve));
        server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
        server.kill();
    };
    kill_one();
    let stats = untold("stats s.mj").output().unwrap();
    assert!(String::from_utf8(stats.stdout).unwrap().contains(&place));
    let created = untold("snapshot create s.mj v@after").output().unwrap();
    let said = String::from_utf8(created.stderr).unwrap();
    assert!(created.status.success() && said.contains(&place), "{said}");
    assert_eq!((folder.warm_files(), folder.pointers()), (0, 0));
    let server = folder.serve("");
    assert!(server.client("v@after").read(0, 65536).unwrap() == pattern(1, 65536));
    server.stop();
    // What is given up is told of.
    kill_one();
    let server = folder.start(untold("serve s.mj --nbd unix:n.sock --warm-log off"));
    let log = server.log();
    assert!(log.contains("gave up") && log.contains(&place) && log.contains("64 KiB"), "{log}");
    server.stop();
    assert_eq!((folder.warm_files(), folder.pointers()), (0, 0));
}

#[test]
fn a_folder_that_was_named_and_cannot_be_used_is_an_error() {
    let folder = Folder::with_store();
    let missing = folder.path("missing").display().to_string();
    let words = format!("serve s.mj --nbd unix:n.sock --warm-log {missing}");
    folder.refused(&words, &[&missing, "--warm-log off"]);
    // The environment proposes.
    let mut command = folder.command("serve s.mj --nbd unix:n.sock");
    command.env("MJOLNIR_WARM_LOG", &missing);
    let server = folder.start(command);
    assert!(
        server.log().contains(&missing) && server.log().contains("/mjolnir-"),
        "{}",
        server.log()
    );
    server.stop();
}
