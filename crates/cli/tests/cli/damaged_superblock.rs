//! The label of a store is there twice: one damaged copy costs a warning, two are refused.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::support::{Folder, pattern};

const LABELS: [u64; 2] = [0, 64 << 10];

#[test]
fn one_damaged_label_is_reported_and_loses_nothing() {
    for at in LABELS {
        let folder = Folder::with_store();
        let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
        file.write_all_at(b"scribble", at + 40).unwrap();
        let said = folder.run("volume list s.mj");
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains('v'), "{said:?}");
        assert!(said.err.contains(&format!("label at byte {at} is damaged")), "{said:?}");
        let checked = folder.run("check s.mj");
        assert_eq!(checked.code, Some(1), "a damaged label is a problem: {checked:?}");
        assert!(checked.out.contains("problem: "), "{checked:?}");
        assert!(checked.out.contains("serve the store once"), "{checked:?}");
        assert!(!checked.out.contains("another store"), "that mends it: {checked:?}");
        assert_eq!(checked.err, "", "it is told once");
        let warning = format!("warning: s.mj: the label at byte {at} is damaged");
        let warns = || {
            for command in ["scrub s.mj", "stats s.mj"] {
                let said = folder.run(command);
                assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
                assert!(said.out.contains(&warning), "{said:?}");
                assert!(!said.out.contains("no damage\n"), "{said:?}");
            }
        };
        warns();
        let read_only = folder.serve("--read-only");
        warns();
        read_only.stop();
        let server = folder.serve("");
        assert!(server.log().contains(&format!("label at byte {at} is damaged")), "it is told");
        folder.ok("checkpoint s.mj");
        assert!(!folder.ok("check s.mj").contains("problem: "), "it was written anew");
        server.stop();
        assert_eq!(folder.run("volume list s.mj").err, "", "both labels are as they were");
    }
}

/// A store that grew from 64 to 80 MiB, and of which both labels are as before: the second one is damaged.
fn outgrown() -> (Folder, Vec<u8>) {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut old = vec![0; 4096];
    file.read_exact_at(&mut old, LABELS[0]).unwrap();
    folder.ok("grow s.mj --size 80M");
    let server = folder.serve("");
    let mut client = server.client("v");
    for block in 0..BLOCKS {
        client.write(0, block * BLOCK, &pattern(block + 1, BLOCK as usize)).unwrap();
    }
    server.stop();
    file.write_all_at(&old, LABELS[0]).unwrap();
    file.write_all_at(b"scribble", LABELS[1] + 40).unwrap();
    (folder, old)
}

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 2000;
const WHOLE: u64 = 80 << 20;

#[test]
fn a_label_that_is_too_old_to_serve_alone_replaces_nothing_until_a_salvage_writes_it_anew() {
    let (folder, _) = outgrown();
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    for words in ["volume list s.mj", "serve s.mj", "volume create s.mj w --size 4M"] {
        let parts =
            ["s.mj: the store has", "its label is from before it grew", "`mjolnir salvage`"];
        folder.refused(words, &parts);
    }
    let said = folder.run("check s.mj");
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in ["counts 63 segments", "checkpoint 79", "`mjolnir salvage s.mj` writes it anew"] {
        assert!(said.out.contains(part), "no {part:?} in {said:?}");
    }
    assert!(std::fs::read(folder.path("s.mj")).unwrap() == before, "something was written");
    let salvaged = folder.ok("salvage s.mj");
    assert!(salvaged.contains("63 segments instead of 79"), "{salvaged}");
    holds(&folder, |_| false);
}

/// Then all that was written to volumes is there, but for what is told to be lost.
fn holds(folder: &Folder, is_lost: impl Fn(u64) -> bool) {
    let said = folder.run("volume list s.mj");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "both labels are sound");
    let server = folder.serve("");
    let mut client = server.client("v");
    for block in 0..BLOCKS {
        match client.read(block * BLOCK, BLOCK as u32) {
            Ok(held) => {
                assert!(held == pattern(block + 1, BLOCK as usize), "block {block}");
                assert!(!is_lost(block * BLOCK), "block {block}");
            }
            Err(_) => assert!(is_lost(block * BLOCK), "block {block}"),
        }
    }
    client.write(1, 0, &pattern(7, 4096)).unwrap();
    server.stop();
}

/// As every file that is too short: what is lost is told, and a salvage goes on without it.
#[test]
fn a_file_that_was_cut_and_has_labels_from_before_it_grew_is_as_any_that_was_cut() {
    let (folder, old) = outgrown();
    let whole = std::fs::read(folder.path("s.mj")).unwrap();
    let (mut lost_some, mut lost_none) = (0, 0);
    for mib in [79, 60, 20, 12, 11, 9, 8, 6] {
        let end = (mib << 20) + 5000;
        std::fs::write(folder.path("s.mj"), &whole).unwrap();
        let file = OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap();
        file.set_len(end).unwrap();
        if mib % 2 == 0 {
            // Both are sound.
            file.write_all_at(&old, LABELS[1]).unwrap();
        }
        let said = folder.run("check s.mj --json");
        let Ok(report) = serde_json::from_str::<Value>(&said.out) else {
            assert!(said.err.contains("all is lost"), "{said:?}");
            continue;
        };
        let losses = report["losses"].as_array().unwrap().clone();
        let text = folder.run("check s.mj").out;
        let missing = format!("its last {} bytes", WHOLE - end);
        for part in ["missing: segment", &missing, "`mjolnir salvage s.mj` makes the file as long"]
        {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert_eq!(folder.path("s.mj").metadata().unwrap().len(), end, "nothing was changed");
        let salvaged = folder.ok("salvage s.mj");
        assert!(salvaged.contains(&format!("{WHOLE} instead of {end} bytes")), "{salvaged}");
        assert!(salvaged.contains("63 segments instead of 79"), "{salvaged}");
        holds(&folder, |at| {
            losses.iter().any(|loss| {
                let offset = loss["offset"].as_u64().unwrap();
                (offset..offset + loss["length"].as_u64().unwrap()).contains(&at)
            })
        });
        *(if losses.is_empty() { &mut lost_none } else { &mut lost_some }) += 1;
    }
    assert!(lost_none > 0 && lost_some > 0, "{lost_none} and {lost_some}");
}

#[test]
fn two_damaged_labels_are_refused() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut saved = [0; 8];
    file.read_exact_at(&mut saved, 40).unwrap();
    for at in LABELS {
        file.write_all_at(b"scribble", at + 40).unwrap();
    }
    for words in ["volume list s.mj", "serve s.mj", "check s.mj"] {
        folder.refused(words, &["s.mj", "both labels are damaged", "backup"]);
    }
    folder.refused("format s.mj --size 64M", &["s.mj", "--force"]);
    for at in LABELS {
        file.write_all_at(&saved, at + 40).unwrap();
    }
    assert!(folder.ok("volume list s.mj").contains('v'), "nothing was lost");
}

#[test]
fn one_damaged_root_is_made_up_for_and_two_are_refused() {
    const ROOTS: [u64; 2] = [128 << 10, 192 << 10];
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    // Both have been written; nothing that the other one names was used again, so it leads to a state
    // that the log brings up to date.
    file.write_all_at(&[0xff; 8], ROOTS[0] + 30).unwrap();
    let said = folder.run("volume list s.mj");
    assert!(said.code == Some(0) && said.out.contains('v'), "{said:?}");
    assert!(said.err.contains(&format!("the root at byte {} is damaged", ROOTS[0])), "{said:?}");
    folder.run("volume create s.mj w --size 4M");
    assert_eq!(folder.run("volume list s.mj").err, "", "a checkpoint wrote that anew");
    for at in ROOTS {
        file.write_all_at(&[0xff; 8], at + 30).unwrap();
    }
    for words in ["volume list s.mj", "serve s.mj", "check s.mj", "salvage s.mj"] {
        let told = folder.refused(words, &["s.mj", "no copy of its root is whole", "all is lost"]);
        assert!(!told.contains("holds no store"), "{told}");
    }
}

#[test]
fn zeroes_over_the_beginning_are_not_taken_for_a_store_that_was_never_made() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut label = [0; 4096];
    file.read_exact_at(&mut label, 0).unwrap();
    file.write_all_at(&[0; 256 << 10], 0).unwrap();
    // By a label that was kept elsewhere.
    file.write_all_at(&label, 0).unwrap();
    for words in ["volume list s.mj", "serve s.mj", "check s.mj", "salvage s.mj"] {
        folder.refused(words, &["s.mj", "its root was overwritten with zeroes"]);
    }
    folder.refused("format s.mj --size 64M", &["s.mj", "--force"]);
}
