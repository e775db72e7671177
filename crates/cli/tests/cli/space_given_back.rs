//! What was deleted comes back to the host: `gc run` punches free segments out of a sparse store, and
//! leaves one that was preallocated as it is.

use std::os::unix::fs::MetadataExt;

use crate::support::{Folder, pattern, wait_until};

const MIB: u64 = 1 << 20;

/// MiB that the store takes on its disk.
fn on_disk(folder: &Folder) -> u64 {
    folder.path("s.mj").metadata().unwrap().blocks() * 512 / MIB
}

/// Has a client fill most of a served store of 256 MiB, a volume at a time, and deletes it all.
fn fill_and_delete(folder: &Folder, format: &str) -> u64 {
    folder.ok(&format!("format s.mj --size 256M {format}"));
    folder.ok("volume create s.mj v --size 32M");
    let server = folder.serve("");
    let mut client = server.client("v");
    for round in 0..6 {
        for piece in 0..32 {
            client.write(0, piece * MIB, &pattern(round * 32 + piece, MIB as usize)).unwrap();
        }
    }
    drop(client);
    let most = on_disk(folder);
    folder.ok("volume delete s.mj v --force");
    folder.ok("gc run s.mj");
    let held = folder.ok("stats s.mj");
    assert!(held.contains("on disk: "), "{held}");
    server.stop();
    most
}

#[test]
fn gc_run_gives_free_space_back_at_once() {
    let folder = Folder::empty();
    let most = fill_and_delete(&folder, "");
    assert!(most > 150, "{most} MiB were taken");
    assert!(on_disk(&folder) < 40, "{} MiB are still taken, of {most}", on_disk(&folder));
    folder.ok("volume create s.mj w --size 16M");
    assert!(folder.ok("check s.mj").contains("no problems"));
    // At rest, too, where what is a hole already does not count.
    let before = on_disk(&folder);
    let told = folder.json("gc run s.mj")["released_bytes"].as_u64().unwrap();
    assert!(
        told / MIB <= before.saturating_sub(on_disk(&folder)) + 4,
        "it tells {told} of {before}"
    );
    assert!(folder.ok("gc run s.mj").contains("free now"));
    assert!(on_disk(&folder) < 40);
}

#[test]
fn a_served_store_gives_it_back_by_itself() {
    let folder = Folder::empty();
    folder.ok("format s.mj --size 256M");
    folder.ok("volume create s.mj v --size 160M");
    let server = folder.serve("");
    let mut client = server.client("v");
    for piece in 0..160 {
        client.write(0, piece * MIB, &pattern(piece, MIB as usize)).unwrap();
    }
    assert!(on_disk(&folder) > 150);
    drop(client);
    folder.ok("volume delete s.mj v --force");
    wait_until("space comes back", || on_disk(&folder) < 60);
    server.stop();
}

#[test]
fn what_was_preallocated_stays() {
    let folder = Folder::empty();
    fill_and_delete(&folder, "--preallocate");
    assert!(on_disk(&folder) >= 250, "{} MiB", on_disk(&folder));
}
