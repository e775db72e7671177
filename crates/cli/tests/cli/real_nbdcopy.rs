//! `nbdcopy` into a volume and out of it again: the bytes arrive, and holes cost nothing.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;

const VOLUME: u64 = 4 << 30;
/// What is not a hole: a few runs, at any alignment.
const RUNS: [(u64, usize); 4] =
    [(0, 3 << 20), (1 << 30, 5 << 20), ((2 << 30) + 4096, 12345), (VOLUME - 65536, 65536)];

/// A file of the volume's size that is nearly all hole; returns how many bytes are not.
fn sparse_file(path: &Path) -> u64 {
    let file = File::create(path).unwrap();
    file.set_len(VOLUME).unwrap();
    let mut chance = Chance::new(1);
    for (at, length) in RUNS {
        file.write_all_at(&chance.bytes(length), at).unwrap();
    }
    RUNS.iter().map(|(_, length)| *length as u64).sum()
}

fn assert_same_runs(path: &Path) {
    let file = File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), VOLUME);
    let mut chance = Chance::new(1);
    for (at, length) in RUNS {
        let mut found = vec![0; length];
        file.read_exact_at(&mut found, at).unwrap();
        assert!(found == chance.bytes(length), "the run at {at} differs");
    }
}

#[test]
fn a_sparse_volume_of_4_gib_is_copied_both_ways_for_the_price_of_its_data() {
    let name = "a_sparse_volume_of_4_gib_is_copied_both_ways_for_the_price_of_its_data";
    if !tools::present(name, &["nbdcopy", "cmp"]) {
        return;
    }
    let store = TestStore::new("64M", "4G");
    let server = store.serve();
    let (source, back) = (store.path("source"), store.path("back"));
    let data = sparse_file(&source);

    let uri = store.uri("v");
    tools::ok("nbdcopy", &["--flush", source.to_str().unwrap(), &uri]);
    let written = store.stat("client_write_bytes");
    assert!((data..data + (1 << 20)).contains(&written), "{written} written for {data}");
    let mapped = store.json("volume list s.mj --mapped")[0]["mapped_bytes"].as_u64().unwrap();
    assert!((data..data + (1 << 20)).contains(&mapped), "{mapped} mapped for {data}");

    store.ok("snapshot create s.mj v@s");
    for export in ["v", "v@s"] {
        let before = store.stat("client_read_bytes");
        File::create(&back).unwrap().set_len(0).unwrap();
        tools::ok("nbdcopy", &[&store.uri(export), back.to_str().unwrap()]);
        let read = store.stat("client_read_bytes") - before;
        assert!((data..data + (1 << 20)).contains(&read), "{read} read for {data}");
        assert_same_runs(&back);
        let taken = back.metadata().unwrap().blocks() * 512;
        assert!(taken < data + (4 << 20), "the copy takes {taken}");
    }
    server.stop();
    store.check();
}

#[test]
fn a_full_volume_comes_back_as_it_was() {
    if !tools::present("a_full_volume_comes_back_as_it_was", &["nbdcopy", "cmp"]) {
        return;
    }
    let store = TestStore::new("96M", "24M");
    let server = store.serve();
    let (source, back) = (store.path("source"), store.path("back"));
    // Thrice, each time over what was there, by several connections at once.
    for round in 0..3 {
        std::fs::write(&source, Chance::new(round).bytes(24 << 20)).unwrap();
        let uri = store.uri("v");
        let many = ["--connections=4", "--requests=16", "--flush"];
        tools::succeed(tools::command("nbdcopy").args(many).arg(&source).arg(&uri));
        tools::succeed(tools::command("nbdcopy").args(many).arg(&uri).arg(&back));
        tools::succeed(tools::command("cmp").args([&source, &back]));
    }
    // From one export to another.
    store.ok("volume create s.mj w --size 24M");
    tools::ok("nbdcopy", &[store.uri("v"), store.uri("w")]);
    server.stop();
    let server = store.serve();
    tools::succeed(tools::command("nbdcopy").arg(store.uri("w")).arg(&back));
    tools::succeed(tools::command("cmp").args([&source, &back]));
    server.stop();
    store.check();
}
