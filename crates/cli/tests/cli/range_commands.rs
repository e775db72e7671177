//! Ranges are cloned, moved, trimmed and written, at rest and served; vectors happen wholly or not at all;
//! and a range past the end changes nothing.

use crate::support::{Folder, pattern};

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
    let announced = r#"[{"write": {"from": 4096, "to": "v:0"}}]"#;
    std::fs::write(folder.path("ops.json"), announced).unwrap();
    folder.refused("range atomic s.mj --file ops.json", &["names the file"]);
    assert_eq!(content(&folder, "v", 0, 64 << 10), data);
}

/// Files with what is to be written: two blocks, one block, and what does not fit.
fn with_files(folder: &Folder) -> (Vec<u8>, Vec<u8>) {
    let (two, one) = (pattern(5, 8192), pattern(6, 4096));
    std::fs::write(folder.path("two.bin"), &two).unwrap();
    std::fs::write(folder.path("one=1.bin"), &one).unwrap();
    std::fs::write(folder.path("odd.bin"), &one[1..]).unwrap();
    std::fs::write(folder.path("empty.bin"), "").unwrap();
    let huge = std::fs::File::create(folder.path("huge.bin")).unwrap();
    huge.set_len((64 << 20) + 4096).unwrap();
    let absurd = std::fs::File::create(folder.path("absurd.bin")).unwrap();
    absurd.set_len(1 << 40).unwrap();
    (two, one)
}

/// Commands that must be refused, and what they say. The first item of each could be done.
const REFUSED: [(&str, &[&str]); 7] = [
    ("range atomic s.mj write:two.bin=v:0 trim:w:16M+4K", &["passes the end of w"]),
    ("range atomic s.mj write:two.bin=v:0 write:two.bin=v:16380K", &["passes the end of v"]),
    ("range atomic s.mj write:two.bin=v:0 write:two.bin=nosuch:0", &["nosuch"]),
    ("range atomic s.mj trim:v:0+4K write:odd.bin=v:0", &["odd.bin has 4095 bytes", "truncate"]),
    ("range atomic s.mj trim:v:0+4K write:none.bin=v:0", &["none.bin", "No such file"]),
    ("range write s.mj absurd.bin v:0", &["1099511627776 bytes", "67108864", "split"]),
    ("range atomic s.mj trim:v:0+4K write:two.bin=v:0 write:huge.bin=w:0", &["67121152 bytes"]),
];

#[test]
fn vectors_write_payload_at_rest_wholly_or_not_at_all() {
    let (folder, data) = prepared();
    let (two, one) = with_files(&folder);
    for (words, parts) in REFUSED {
        folder.refused(words, parts);
    }
    folder.refused("range write s.mj empty.bin v:0", &["empty.bin has 0 bytes"]);
    assert_eq!(content(&folder, "v", 0, 64 << 10), data, "nothing was done");
    folder.ok("range atomic s.mj clone:v:0+4K=w:8K write:two.bin=v:0 write:one=1.bin=w:0");
    folder.ok("range write s.mj two.bin w:1M");
    assert_eq!(content(&folder, "v", 0, 12288), [&two[..], &data[8192..12288]].concat());
    assert_eq!(content(&folder, "w", 0, 4096), one);
    assert_eq!(content(&folder, "w", 8192, 4096), data[..4096], "cloned before it was written to");
    assert_eq!(content(&folder, "w", 1 << 20, 8192), two);
}

#[test]
fn vectors_write_payload_through_a_server_wholly_or_not_at_all() {
    let (folder, data) = prepared();
    let (two, one) = with_files(&folder);
    let server = folder.serve("");
    let (mut v, mut w) = (server.client("v"), server.client("w"));
    for (words, parts) in REFUSED {
        folder.refused(words, parts);
    }
    assert_eq!(v.read(0, 64 << 10).unwrap(), data, "nothing was done");
    folder.ok("range atomic s.mj clone:v:0+4K=w:8K write:two.bin=v:0 write:one=1.bin=w:0");
    let ops = r#"[{"write": {"from": "two.bin", "to": "w:1M"}}, {"trim": "v:8K+4K"}]"#;
    std::fs::write(folder.path("ops.json"), ops).unwrap();
    folder.ok("range atomic s.mj --file ops.json");
    assert_eq!(v.read(0, 12288).unwrap(), [&two[..], &[0; 4096]].concat());
    assert_eq!(w.read(0, 4096).unwrap(), one);
    assert_eq!(w.read(8192, 4096).unwrap(), data[..4096]);
    assert_eq!(w.read(1 << 20, 8192).unwrap(), two);
    // All that one vector takes, at once.
    let most = pattern(9, 16 << 20);
    std::fs::write(folder.path("most.bin"), &most).unwrap();
    folder.ok("range atomic s.mj write:most.bin=v:0 write:two.bin=w:2M");
    assert!(v.read(0, 16 << 20).unwrap() == most);
    drop((v, w));
    server.kill();
    assert!(content(&folder, "v", 0, 16 << 20) == most, "it was durable when it was answered");
}
