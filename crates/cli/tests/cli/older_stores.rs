//! A store that an older version wrote, and whose server was killed, opens: what its checkpoint and its log
//! say is there, and it goes on as one of today's.
//!
//! `older/version-2.runs` is such a store of 3 MiB: volumes `v` (block *i* of 16 holds bytes *i* + 1) and `w`
//! of 48 KiB, `v@s`, a checkpoint; then two blocks of 33 to `v`, `range clone v:0+8K w:0`, `range move v:8K+4K
//! w:8K`, `range trim v:16K+4K`, `range atomic trim:w:40K+4K clone:v:0+4K=w:44K`, `v` resized to 80 KiB, `x`
//! created and filled with 65, `y` cloned from `v@s`, and `w` renamed to `z`. `older/version-3.runs` is one as well:
//! the same up to the checkpoint; then two blocks of 33 to `v`, `range clone v:0+8K w:0`, `v` resized to 80 KiB, `odd`
//! of 4,608 bytes created and filled with 65, `y` cloned from `v@s`, and `w` renamed to `z`. `older/version-4.runs` has the
//! same, but for `y`. In the files, 0 and a length in four
//! bytes come before so many bytes, and 1 and a length before one that stands there so often.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::support::Folder;

const VERSION_2: &[u8] = include_bytes!("older/version-2.runs");
const VERSION_3: &[u8] = include_bytes!("older/version-3.runs");
const VERSION_4: &[u8] = include_bytes!("older/version-4.runs");

/// The version that the program writes.
const PRESENT: u32 = 5;

fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some((head, rest)) = packed.split_first_chunk::<5>() {
        let length = u32::from_le_bytes(head[1..].try_into().unwrap()) as usize;
        let taken = if head[0] == 0 { length } else { 1 };
        match head[0] {
            0 => bytes.extend_from_slice(&rest[..length]),
            _ => bytes.resize(bytes.len() + length, rest[0]),
        }
        packed = &rest[taken..];
    }
    bytes
}

/// The version that the root in each slot is of.
fn versions(folder: &Folder) -> [u32; 2] {
    let file = OpenOptions::new().read(true).open(folder.path("s.mj")).unwrap();
    [128 << 10, 192 << 10].map(|slot: u64| {
        let mut version = [0; 4];
        file.read_exact_at(&mut version, slot + 24 + 8).unwrap();
        u32::from_le_bytes(version)
    })
}

/// What each block holds, by its first byte: all of its bytes are the same.
fn blocks(bytes: &[u8]) -> Vec<u8> {
    let block = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]));
        block[0]
    };
    bytes.chunks(4096).map(block).collect()
}

#[test]
fn a_store_of_version_2_opens_with_all_that_was_logged() {
    let folder = Folder::empty();
    std::fs::write(folder.path("s.mj"), unpacked(VERSION_2)).unwrap();
    assert_eq!(versions(&folder), [2, 2]);
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert_eq!(versions(&folder), [2, 2], "who only reads changes nothing");

    let server = folder.serve("");
    let original: Vec<u8> = (1..=16).collect();
    let contents = [
        ("v", [&[33, 33, 0, 4, 0], &original[5..], &[0; 4]].concat()),
        ("v@s", original.clone()),
        ("y", original),
        ("x", vec![65; 3]),
        ("z", [&[33, 33, 3][..], &[0; 8], &[33]].concat()),
    ];
    for (name, expected) in &contents {
        let mut client = server.client(name);
        let bytes = client.read(0, client.size as u32).unwrap();
        assert_eq!(blocks(&bytes), *expected, "{name}");
    }
    folder.ok("volume create s.mj odd --size 4608");
    folder.ok("volume resize s.mj x --size 6656 --shrink");
    server.kill();
    assert!(versions(&folder).contains(&PRESENT));
    assert!(folder.ok("check s.mj").contains("no problems"));
    let server = folder.serve("");
    assert_eq!(server.client("odd").size, 4608);
    let mut x = server.client("x");
    assert_eq!((x.size, x.read(0, 6656).unwrap()), (6656, vec![65; 6656]));
    server.stop();
}

#[test]
fn a_store_of_version_3_opens_with_all_that_was_logged() {
    opens_with_all_that_was_logged(3, VERSION_3, &["y"]);
}

#[test]
fn a_store_of_version_4_opens_with_all_that_was_logged() {
    opens_with_all_that_was_logged(4, VERSION_4, &[]);
}

/// `clones`: what was cloned from `v@s`.
fn opens_with_all_that_was_logged(version: u32, packed: &[u8], clones: &[&str]) {
    let folder = Folder::empty();
    std::fs::write(folder.path("s.mj"), unpacked(packed)).unwrap();
    let found = versions(&folder);
    assert!(found.iter().all(|of| *of == version), "{found:?}");
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert_eq!(versions(&folder), found, "who only reads changes nothing");

    let server = folder.serve("");
    let original: Vec<u8> = (1..=16).collect();
    let contents = [
        ("v", [&[33, 33], &original[2..], &[0; 4]].concat()),
        ("v@s", original.clone()),
        ("z", [&[33, 33][..], &[0; 10]].concat()),
    ];
    let copies = clones.iter().map(|name| (*name, original.clone()));
    for (name, expected) in contents.into_iter().chain(copies) {
        let mut client = server.client(name);
        let bytes = client.read(0, client.size as u32).unwrap();
        assert_eq!(blocks(&bytes), expected, "{name}");
    }
    let mut odd = server.client("odd");
    assert_eq!((odd.size, odd.read(0, 4608).unwrap()), (4608, vec![65; 4608]));
    server.kill();
    assert!(versions(&folder).contains(&PRESENT));
    assert!(folder.ok("check s.mj").contains("no problems"));
}
