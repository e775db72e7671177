//! `fio` with its nbd engine verifies what it wrote, many times over, while reclaim moves it.

use crate::real_support::store::TestStore;
use crate::real_support::tools;

/// Runs fio on an export; fails if it finds a block that it did not write.
fn fio(store: &TestStore, export: &str, arguments: &[&str]) {
    let mut command = tools::command("fio");
    command.args(["--name=v", "--ioengine=nbd", "--iodepth=16", "--minimal"]);
    command.args(["--verify=crc32c", "--verify_fatal=1", "--size=48M"]);
    command.arg(format!("--uri={}", store.uri(export))).args(arguments);
    tools::succeed(command.current_dir(store.folder()));
}

fn has_engine() -> bool {
    tools::run(tools::command("fio").arg("--enghelp")).out.lines().any(|line| line.trim() == "nbd")
}

#[test]
fn what_fio_wrote_is_there_under_reclaim_and_in_snapshots() {
    let name = "what_fio_wrote_is_there_under_reclaim_and_in_snapshots";
    if !tools::present(name, &["fio"]) || !(has_engine() || tools::skip(name, "fio's nbd engine")) {
        return;
    }
    // The volume and its snapshot, once they differ in full, take most of the store.
    let store = TestStore::new("160M", "48M");
    let server = store.serve();
    // Each block five times, in an order that leaves every segment partly stale; all are read
    // back after each pass.
    let small = ["--rw=randwrite", "--bs=4k", "--randseed=1"];
    fio(&store, "v", &[&small[..], &["--loops=5"]].concat());
    let reclaimed = store.stat("segments_reclaimed");
    assert!(reclaimed > 0, "reclaim won nothing");
    store.ok("snapshot create s.mj v@s");

    // Requests of all sizes at any multiple of 512 bytes, with flushes among them; reading back
    // begins while writing goes on.
    let mixed = ["--rw=randwrite", "--bsrange=512-256k", "--fsync=64", "--randseed=2"];
    fio(&store, "v", &[&mixed[..], &["--loops=4", "--verify_backlog=256"]].concat());
    assert!(store.stat("segments_reclaimed") > reclaimed, "reclaim won nothing more");
    assert_eq!(store.stat("copy_forward_failures"), 0);
    assert_eq!(store.stat("checksum_errors"), 0);

    // The snapshot was moved about meanwhile, and has what was written before it, as a crash of
    // the server leaves it, too.
    let verify = ["--readonly", "--rw=read", "--bs=4k"];
    fio(&store, "v@s", &verify);
    server.kill();
    let server = store.serve();
    fio(&store, "v@s", &verify);
    server.stop();
    store.check();
    store.ok("scrub s.mj");
}
