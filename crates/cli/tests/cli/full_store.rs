//! A full store says so to clients, and to its operator before that; it stays readable, and takes
//! writes again once something is deleted.

use crate::support::nbd::ENOSPC;
use crate::support::{Folder, pattern};

const PIECE: usize = 1 << 20;

#[test]
fn a_full_store_loses_nothing_and_recovers_by_deletion() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj big --size 1G");
    let server = folder.serve("");
    server.client("v").write(0, 0, &pattern(500, PIECE)).unwrap();
    let mut client = server.client("big");
    let mut written = 0;
    let refused = loop {
        match client.write(0, written * PIECE as u64, &pattern(written, PIECE)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 64, "the store has only 64 MiB");
    };
    assert_eq!(refused, ENOSPC);
    assert!(written >= 32, "only {written} MiB of 64 could be written");
    server.wait_for("space is low");
    server.wait_for("refused, since no space is left");
    for piece in 0..written {
        let read = client.read(piece * PIECE as u64, PIECE as u32).unwrap();
        assert!(read == pattern(piece, PIECE), "piece {piece}");
    }
    let told = folder.ok("stats s.mj");
    assert!(told.contains("space is low") && told.contains("refused so far"), "{told}");
    folder.ok("volume delete s.mj big --force");
    folder.ok("gc run s.mj");
    let mut client = server.client("v");
    assert!(client.read(0, PIECE as u32).unwrap() == pattern(500, PIECE));
    for piece in 0..8 {
        client.write(0, piece * PIECE as u64, &pattern(600 + piece, PIECE)).unwrap();
    }
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn a_full_store_grows() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj big --size 1G");
    let server = folder.serve("");
    let mut client = server.client("big");
    let mut at = 0;
    while client.write(0, at, &pattern(at, PIECE)).is_ok() {
        at += PIECE as u64;
    }
    server.wait_for("refused, since no space is left");
    folder.ok("grow s.mj --size 128M");
    server.wait_for("there is room again");
    client.write(0, at, &pattern(at, PIECE)).unwrap();
    assert!(client.read(0, PIECE as u32).unwrap() == pattern(0, PIECE));
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
}

#[test]
fn a_full_store_goes_back_to_a_snapshot() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj big --size 1G");
    let server = folder.serve("");
    let mut client = server.client("big");
    for piece in 0..8 {
        client.write(0, piece * PIECE as u64, &pattern(piece, PIECE)).unwrap();
    }
    folder.ok("snapshot create s.mj big@early");
    let mut at = 8 * PIECE as u64;
    while client.write(0, at, &pattern(at, PIECE)).is_ok() {
        at += PIECE as u64;
    }
    // Odd edges, in what the snapshot has, too, and in a hole.
    for offset in [PIECE as u64 - 100, 5 * PIECE as u64 + 3, 900 << 20] {
        client.zero(offset, 10_001).unwrap();
        assert_eq!(client.read(offset, 10_001).unwrap(), [0; 10_001]);
    }
    folder.ok("volume rename s.mj big huge");
    folder.ok("snapshot restore s.mj huge@early --force");
    for piece in 0..8 {
        let read = client.read(piece * PIECE as u64, PIECE as u32).unwrap();
        assert!(read == pattern(piece, PIECE), "piece {piece}");
    }
    for piece in 0..16 {
        client.write(0, piece * PIECE as u64, &pattern(700 + piece, PIECE)).unwrap();
    }
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn the_volume_that_format_suggests_can_be_filled_and_overwritten() {
    let folder = Folder::empty();
    let made = folder.ok("format s.mj --size 64M");
    let next = made.lines().find(|line| line.contains("volume create")).expect("what is next");
    let size = next.rsplit(' ').next().unwrap();
    let pieces: u64 = size.strip_suffix('M').expect("some MiB").parse().unwrap();
    folder.ok(&format!("volume create s.mj v --size {size}"));
    let server = folder.serve("");
    let mut client = server.client("v");
    for round in 0..3 {
        for piece in 0..pieces {
            let written =
                client.write(0, piece * PIECE as u64, &pattern(round * pieces + piece, PIECE));
            written.unwrap_or_else(|error| panic!("{error} at {piece} of {size} in round {round}"));
        }
    }
    assert!(client.read(0, PIECE as u32).unwrap() == pattern(2 * pieces, PIECE));
    server.stop();
}
