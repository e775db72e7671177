//! What was acknowledged survives `kill -9`, flushed or not: a client that reconnects finds all of it, under a
//! flush that says ok, however often that happens.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Folder, Server, pattern};

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

/// A store whose server was killed, and left a change that it had acknowledged and not written.
fn killed(serve: impl Fn(&Folder) -> Server<'_>) -> Folder {
    // Where a kill comes late, a server has written it.
    for _ in 0..50 {
        let folder = Folder::with_store();
        let server = serve(&folder);
        server.client("v").write(0, 0, &pattern(1, 65536)).unwrap();
        server.kill();
        if folder.json("stats s.mj")["waiting"]["changes"] == 1 {
            return folder;
        }
    }
    panic!("servers have written all that they acknowledged when they are killed");
}

#[test]
fn a_command_brings_back_what_a_server_left_and_an_orderly_end_leaves_nothing() {
    let folder = killed(|folder| folder.serve(""));
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

/// A store with changes that only the warm log of its dead server holds, and what of it was copied before.
fn killed_after_a_copy() -> Folder {
    killed(|folder| {
        folder.ok("checkpoint s.mj");
        let server = folder.serve("");
        std::fs::copy(folder.path("s.mj"), folder.path("copy.mj")).unwrap();
        // While the server runs, what it keeps is its own, and nobody else is bothered with it.
        let said = folder.run("check copy.mj");
        assert!(said.code == Some(0) && !said.out.contains(".warm"), "{said:?}");
        server
    })
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
    server.wait_for("1 change that its last server");
    assert!(server.client("v").read(0, 65536).unwrap() == pattern(1, 65536));
}

/// A command that is not told of the folder of warm logs.
fn untold(folder: &Folder, words: &str) -> Command {
    let mut command = folder.command(words);
    command.env_remove("MJOLNIR_WARM_LOG");
    command
}

/// What has a server told of that folder, and of no other.
fn named(folder: &Folder) -> String {
    format!("serve s.mj --nbd unix:n.sock --warm-log {}", folder.warm_path().display())
}

/// As when its file system is mounted again, or its disk plugged in again. The server alone was told of the folder,
/// or every command is.
#[test]
fn a_store_under_another_number_is_refused_until_its_warm_log_is_renamed_as_is_said() {
    for told in [false, true] {
        let command_in = |folder: &Folder, words: &str| match told {
            true => folder.command(words),
            false => untold(folder, words),
        };
        let folder = killed(|folder| folder.start(command_in(folder, &named(folder))));
        let command = |words: &str| command_in(&folder, words);
        let place = folder.warm_path().display().to_string();
        std::fs::copy(folder.path("s.mj"), folder.path("moved.mj")).unwrap();
        std::fs::rename(folder.path("moved.mj"), folder.path("s.mj")).unwrap();
        let text = |words: &str| {
            let output = command(words).output().unwrap();
            assert!(output.status.success(), "{words}: {output:?}");
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        for words in ["check s.mj", "scrub s.mj", "stats s.mj", "volume list s.mj"] {
            let said = text(words);
            assert!(said.contains(HOLDS) && said.contains(&place), "{words}: {said}");
        }
        let refused = command("serve s.mj").output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("not opened for writing") && said.contains(HOLDS), "{said}");
        let take = said.split('`').find(|part| part.starts_with("mv ")).unwrap();
        let report = serde_json::from_str::<serde_json::Value>(&text("stats s.mj --json")).unwrap();
        assert_eq!(report["waiting"]["take"], take);
        assert!(Command::new("sh").args(["-c", take]).status().unwrap().success());
        let server = folder.start(command("serve s.mj --nbd unix:n.sock"));
        server.wait_for("1 change that its last server");
        assert!(server.client("v").read(0, 65536).unwrap() == pattern(1, 65536));
        server.stop();
        assert_eq!((folder.warm_files(), folder.pointers()), (0, 0));
    }
}

/// The copy has the inode of the store that was served, and comes to the same epoch.
#[test]
fn an_older_copy_in_the_place_of_the_store_takes_nothing_and_says_what_is_left() {
    let folder = killed(|folder| {
        std::fs::copy(folder.path("s.mj"), folder.path("older.mj")).unwrap();
        folder.serve("")
    });
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
    server.wait_for("older copy");
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

/// The server was told of the folder, and nobody else is.
#[test]
fn a_command_that_was_not_told_of_the_folder_finds_what_is_there() {
    let killed_one = || killed(|folder| folder.start(untold(folder, &named(folder))));
    let folder = killed_one();
    let place = folder.warm_path().display().to_string();
    let stats = untold(&folder, "stats s.mj").output().unwrap();
    assert!(String::from_utf8(stats.stdout).unwrap().contains(&place));
    let created = untold(&folder, "snapshot create s.mj v@after").output().unwrap();
    let said = String::from_utf8(created.stderr).unwrap();
    assert!(created.status.success() && said.contains(&place), "{said}");
    assert_eq!((folder.warm_files(), folder.pointers()), (0, 0));
    let server = folder.serve("");
    assert!(server.client("v@after").read(0, 65536).unwrap() == pattern(1, 65536));
    server.stop();
    // What is given up is told of.
    let folder = killed_one();
    let place = folder.warm_path().display().to_string();
    let server = folder.start(untold(&folder, "serve s.mj --nbd unix:n.sock --warm-log off"));
    server.wait_for("gave up");
    let log = server.log();
    assert!(log.contains(&place) && log.contains("64 KiB"), "{log}");
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
    server.wait_for(&missing);
    assert!(server.log().contains("/mjolnir-"), "{}", server.log());
    server.stop();
}
