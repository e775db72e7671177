//! A file that lost its end is refused, with both sizes named and what to do; `check` tells what lay there
//! without changing a byte, `truncate` mends it where nothing is lost, and `salvage` goes on without the rest.

use std::fs::OpenOptions;

use serde_json::Value;

use crate::support::{Folder, pattern};

const WHOLE: u64 = 64 << 20;
const BLOCK: u64 = 4096;

fn set_len(folder: &Folder, bytes: u64) {
    OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap().set_len(bytes).unwrap();
}

fn len(folder: &Folder) -> u64 {
    folder.path("s.mj").metadata().unwrap().len()
}

/// A store to whose volume `blocks` blocks were written and flushed.
fn written(blocks: u64, closed: bool) -> Folder {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    for block in 0..blocks {
        client.write(0, block * BLOCK, &pattern(block + 1, BLOCK as usize)).unwrap();
    }
    client.flush().unwrap();
    match closed {
        true => server.stop(),
        false => server.kill(),
    }
    folder
}

fn check(folder: &Folder) -> Value {
    let said = folder.run("check s.mj --json");
    assert_eq!(said.code, Some(1), "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

#[test]
fn a_truncated_store_is_refused_and_works_again_once_it_is_whole() {
    let folder = Folder::with_store();
    let whole = std::fs::read(folder.path("s.mj")).unwrap();
    for length in [whole.len() as u64 - 4096, 2 << 20, 100_000, 4096, 16] {
        set_len(&folder, length);
        for words in ["volume list s.mj", "serve s.mj", "volume create s.mj w --size 1M"] {
            let said = folder.refused(words, &["s.mj", "truncated"]);
            let told = said.contains(&format!("`truncate -s {WHOLE} s.mj`"));
            assert_eq!(told, length > 68 << 10, "{said}");
        }
        assert_eq!(len(&folder), length, "it was left as it was");
    }
    std::fs::write(folder.path("s.mj"), whole).unwrap();
    assert!(folder.ok("volume list s.mj").contains('v'));
}

#[test]
fn where_nothing_is_lost_check_says_so_and_truncate_mends_it() {
    for closed in [true, false] {
        let folder = written(300, closed);
        for missing in [1, 100, 4096, 1 << 20, 3_000_000] {
            set_len(&folder, WHOLE - missing);
            let said = folder.run("check s.mj");
            assert_eq!(said.code, Some(1), "{said:?}");
            for part in [
                &format!("its last {missing} bytes"),
                &format!("`truncate -s {WHOLE} s.mj` mends it"),
                "free there: nothing is lost",
                "and nothing is lost",
            ] {
                assert!(said.out.contains(part), "no {part:?} in {}", said.out);
            }
            let report = check(&folder);
            assert_eq!(report["losses"], Value::Array(vec![]), "{report}");
            assert_eq!(report["problems"].as_array().unwrap().len(), 1, "{report}");
            assert_eq!(report["missing"]["in_use"], Value::Array(vec![]), "{report}");
            assert_eq!(len(&folder), WHOLE - missing, "nothing was changed");
        }
        set_len(&folder, WHOLE);
        assert!(folder.ok("check s.mj").contains("no problems"));
        let server = folder.serve("");
        let mut client = server.client("v");
        for block in 0..300 {
            let held = client.read(block * BLOCK, BLOCK as u32).unwrap();
            assert!(held == pattern(block + 1, BLOCK as usize), "block {block}");
        }
        server.stop();
    }
}

#[test]
fn what_is_lost_is_told_and_a_salvage_goes_on_without_it() {
    let folder = written(3000, true);
    // Some cuts take the manifest, and with it all; others take data alone.
    let whole = std::fs::read(folder.path("s.mj")).unwrap();
    let cuts = (2..14u64).rev().map(|mib| (mib << 20) + 5000);
    let mut lost_some = 0;
    for end in cuts {
        std::fs::write(folder.path("s.mj"), &whole).unwrap();
        set_len(&folder, end);
        let said = folder.run("check s.mj --json");
        let Ok(report) = serde_json::from_str::<Value>(&said.out) else {
            assert!(said.err.contains("all is lost"), "{said:?}");
            continue;
        };
        let losses = report["losses"].as_array().unwrap().clone();
        let text = folder.run("check s.mj").out;
        assert_eq!(len(&folder), end, "nothing was changed");
        assert!(text.contains("missing: segment"), "{text}");
        // What is wrong comes first, and what follows from it is cut short.
        let told = text.lines().position(|line| line.contains("it is truncated")).unwrap();
        assert!(told <= 3 && text.lines().count() <= 50, "{text}");
        let advice =
            if losses.is_empty() { "mend it as is said" } else { "`mjolnir salvage s.mj`" };
        assert!(text.contains(advice), "{text}");
        if losses.is_empty() {
            continue;
        }
        lost_some += 1;
        let salvaged = folder.ok("salvage s.mj");
        assert!(salvaged.contains(&format!("{WHOLE} instead of {end} bytes")), "{salvaged}");
        assert!(salvaged.contains("`mjolnir gc run s.mj`"), "{salvaged}");
        assert_eq!(len(&folder), WHOLE);
        let is_lost = |at: u64| {
            losses.iter().any(|loss| {
                let offset = loss["offset"].as_u64().unwrap();
                (offset..offset + loss["length"].as_u64().unwrap()).contains(&at)
            })
        };
        let server = folder.serve("");
        let mut client = server.client("v");
        for block in (0..3000).step_by(13) {
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
        // The way out that is named is one.
        let scrub = folder.run("scrub s.mj --json").out;
        let scrub: Value = serde_json::from_str(&scrub).unwrap();
        for loss in scrub["losses"].as_array().unwrap() {
            folder.ok(&format!("range trim s.mj v:{}+{}", loss["offset"], loss["length"]));
        }
        folder.ok("gc run s.mj");
        assert!(folder.ok("check s.mj").contains("no problems"), "cut to {end}");
    }
    assert!(lost_some > 0, "no cut took data and left the map");
}

#[test]
fn a_salvage_of_a_store_that_lost_nothing_makes_it_long_again() {
    let folder = written(10, false);
    set_len(&folder, WHOLE - 77);
    let told: Value = serde_json::from_str(&folder.ok("salvage s.mj --json")).unwrap();
    assert_eq!(told["lengthened"]["from"], WHOLE - 77, "{told}");
    assert_eq!((&told["lengthened"]["to"], &told["salvaged"]), (&WHOLE.into(), &true.into()));
    assert_eq!(told["log"], Value::Null);
    assert_eq!(len(&folder), WHOLE);
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("salvage s.mj").contains("there was nothing to salvage"));
}
