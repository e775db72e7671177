//! A store whose log is damaged is refused, and the refusal says how to go on: `check` tells what
//! is lost without changing a byte, `salvage` accepts it, and then the store serves again.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::support::{Folder, pattern};

const BLOCK: u64 = 4096;
const WRITES: u64 = 20;

/// Damages the header of one of the last groups of the log: `behind` follow it.
fn damage(folder: &Folder, behind: usize) {
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let blocks = file.metadata().unwrap().len() / BLOCK;
    let mut headers = Vec::new();
    for at in (0..blocks).map(|block| block * BLOCK) {
        let mut head = [0; 4096];
        file.read_exact_at(&mut head, at).unwrap();
        // A group with records.
        if &head[..4] == b"MGRP" && head[66..68] != [0, 0] {
            headers.push((u64::from_le_bytes(head[56..64].try_into().unwrap()), at));
        }
    }
    headers.sort();
    let (_, at) = headers[headers.len() - 1 - behind];
    file.write_all_at(&[0xab; 40], at + 60).unwrap();
}

/// A store to whose volume `WRITES` blocks were written, each followed by a flush, and whose
/// server was killed.
fn killed() -> Folder {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    for block in 0..WRITES {
        client.write(0, block * BLOCK, &pattern(block + 1, BLOCK as usize)).unwrap();
        client.flush().unwrap();
    }
    server.kill();
    folder
}

#[test]
fn what_is_lost_is_told_then_accepted() {
    let folder = killed();
    damage(&folder, 5);
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    for words in ["volume list s.mj", "serve s.mj --nbd unix:n.sock", "scrub s.mj", "stats s.mj"] {
        folder.refused(words, &["segment ", "block ", "`mjolnir check`", "`mjolnir salvage`"]);
    }
    let checked = folder.run("check s.mj");
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for part in ["problem: ", "missing", "lost: v:61440+20480", "mjolnir salvage s.mj"] {
        assert!(checked.out.contains(part), "no {part:?} in {}", checked.out);
    }
    let report = folder.run("check s.mj --json");
    assert_eq!(report.code, Some(1));
    let report: Value = serde_json::from_str(&report.out).unwrap();
    let log = &report["log"];
    assert_eq!(log["dropped_records"], 5, "{log}");
    assert_eq!(log["missing"][0]["first"], log["missing"][0]["last"], "{log}");
    assert_eq!(log["unknown_bytes"], BLOCK, "{log}");
    assert_eq!(std::fs::read(folder.path("s.mj")).unwrap(), before, "nothing was changed");

    let salvaged = folder.ok("salvage s.mj");
    assert!(salvaged.contains("lost: v:61440+20480"), "{salvaged}");
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    let server = folder.serve("");
    let mut client = server.client("v");
    for block in 0..WRITES {
        let held = client.read(block * BLOCK, BLOCK as u32).unwrap();
        match block < WRITES - 6 {
            true => assert!(held == pattern(block + 1, BLOCK as usize), "block {block}"),
            false => assert!(held.iter().all(|byte| *byte == 0), "block {block}"),
        }
    }
    client.write(0, 0, &pattern(99, BLOCK as usize)).unwrap();
    client.flush().unwrap();
    folder.refused("salvage s.mj", &["s.mj is being served", "nothing to salvage"]);
    server.kill();
    // A store that opens is left as it is.
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    assert!(folder.ok("salvage s.mj").contains("there was nothing to salvage"));
    let told: Value = serde_json::from_str(&folder.ok("salvage s.mj --json")).unwrap();
    assert_eq!(told["salvaged"], false);
    assert_eq!(std::fs::read(folder.path("s.mj")).unwrap(), before);
}

#[test]
fn programs_are_told_what_was_lost() {
    let folder = killed();
    damage(&folder, 0);
    let told: Value = serde_json::from_str(&folder.ok("salvage s.mj --json")).unwrap();
    assert_eq!(told["salvaged"], true, "{told}");
    assert_eq!(told["log"]["ranges"], Value::Array(vec![]), "{told}");
    assert!(told["log"]["unknown_bytes"].as_u64().unwrap() >= BLOCK, "{told}");
    assert_eq!(told["log"]["places"].as_array().unwrap().len(), 1, "{told}");
    folder.ok("volume list s.mj");
}
