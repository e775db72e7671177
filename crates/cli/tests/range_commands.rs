//! Ranges are cloned, moved and trimmed, at rest and served; vectors happen wholly or not at all;
//! and a range past the end changes nothing.

mod support;

use support::{Folder, pattern};

/// Volumes `v` and `w` of 16 MiB, the first of whose has 64 KiB of data at its start.
fn prepared() -> (Folder, Vec<u8>) {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj w --size 16M");
    let data = pattern(3, 64 << 10);
    let server = folder.serve("");
    server.client("v").write(0, 0, &data).unwrap();
    server.stop();
    (folder, data)
}

fn content(folder: &Folder, volume: &str, offset: u64, length: u32) -> Vec<u8> {
    let server = folder.serve("");
    let bytes = server.client(volume).read(offset, length).unwrap();
    server.stop();
    bytes
}

#[test]
fn ranges_are_cloned_moved_and_trimmed() {
    let (folder, data) = prepared();
    folder.ok("range clone s.mj v:0+64K w:4K");
    folder.ok("range move s.mj w:4K+32K w:1M");
    folder.ok("range trim s.mj v:0+4K");
    assert_eq!(content(&folder, "w", 1 << 20, 32 << 10), data[..32 << 10]);
    assert_eq!(content(&folder, "w", 4096, 4096), [0; 4096], "it was moved away");
    assert_eq!(content(&folder, "w", 36 << 10, 4096), data[32 << 10..36 << 10]);
    assert_eq!(content(&folder, "v", 0, 4096), [0; 4096], "it was trimmed");
    assert_eq!(content(&folder, "v", 4096, 4096), data[4096..8192]);
}

#[test]
fn a_vector_happens_wholly_at_rest_and_served() {
    let (folder, data) = prepared();
    folder.ok("range atomic s.mj clone:v:0+4K=w:0 clone:v:4K+4K=v:0 clone:w:0+4K=v:4K");
    let swapped = [&data[4096..8192], &data[..4096]].concat();
    let server = folder.serve("");
    let mut client = server.client("v");
    assert_eq!(client.read(0, 8192).unwrap(), swapped, "the two blocks are swapped");
    let ops = r#"[{"trim": "w:0+4K"}, {"move": {"from": "v:0+8K", "to": "w:1M"}}]"#;
    std::fs::write(folder.path("ops.json"), ops).unwrap();
    folder.ok("range atomic s.mj --file ops.json");
    assert_eq!(client.read(0, 8192).unwrap(), [0; 8192]);
    assert_eq!(server.client("w").read(1 << 20, 8192).unwrap(), swapped);
    folder.refused("range atomic s.mj trim:v:8K+4K trim:w:16M+4K", &["passes the end of w"]);
    assert_eq!(client.read(8192, 4096).unwrap(), data[8192..12288], "the trim did not happen");
    server.stop();
}

#[test]
fn a_range_past_the_end_changes_nothing() {
    let (folder, data) = prepared();
    let attempts = || {
        for words in [
            "range trim s.mj v:16M+4K",
            "range trim s.mj v:0+17M",
            "range clone s.mj v:0+64K v:16380K",
            "range move s.mj v:16M+64K w:0",
            "range atomic s.mj trim:v:0+4K clone:v:4K+16M=w:0",
        ] {
            folder.refused(words, &["passes the end", "16777216"]);
        }
    };
    attempts();
    let server = folder.serve("");
    attempts();
    let mut client = server.client("v");
    assert!(client.read(16 << 20, 4096).is_err(), "a client is refused, too");
    assert_eq!(client.read(0, 64 << 10).unwrap(), data);
    server.stop();
}

#[test]
fn what_is_no_range_is_named() {
    let (folder, data) = prepared();
    folder.misused("range trim s.mj v", &["\"v\"", "VOLUME:OFFSET+LENGTH"]);
    folder.misused("range clone s.mj v:0+4K w", &["\"w\"", "VOLUME:OFFSET"]);
    folder.misused("range atomic s.mj swap:v:0+4K=w:0", &["swap:v:0+4K=w:0", "clone:SOURCE"]);
    folder.misused("range atomic s.mj", &["OPERATION"]);
    folder.refused("range trim s.mj v:1+4K", &["1", "multiple", "4096"]);
    folder.ok("snapshot create s.mj v@a");
    folder.refused("range trim s.mj v@a:0+4K", &["v@a", "snapshot"]);
    std::fs::write(folder.path("ops.json"), "[{\"trim\": \"v:0\"}]").unwrap();
    folder.refused("range atomic s.mj --file ops.json", &["ops.json", "VOLUME:OFFSET+LENGTH"]);
    folder.refused("range atomic s.mj --file none.json", &["none.json"]);
    assert_eq!(content(&folder, "v", 0, 64 << 10), data);
}
