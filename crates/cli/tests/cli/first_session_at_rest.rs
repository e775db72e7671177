//! A newcomer's first session, on a store that nobody serves: every command does what it says,
//! and the next command sees it.

use crate::support::Folder;

#[test]
fn volumes_snapshots_and_clones_come_and_go() {
    let folder = Folder::empty();
    let made = folder.ok("format s.mj --size 64M");
    assert!(made.contains("mjolnir volume create s.mj"), "says what to do next: {made}");
    folder.ok("volume create s.mj v --size 64G");
    folder.ok("snapshot create s.mj v@monday");
    folder.ok("clone s.mj v@monday w");
    folder.refused("volume resize s.mj w --size 1G", &["64 GiB", "nothing is stored", "--shrink"]);
    folder.ok("volume resize s.mj w --size 1G --shrink");
    folder.ok("volume rename s.mj w x");
    let volumes = folder.ok("volume list s.mj");
    let lines: Vec<Vec<&str>> =
        volumes.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [["v", "64", "GiB"], ["x", "1", "GiB"]]);
    let snapshots = folder.ok("snapshot list s.mj");
    assert!(snapshots.contains("v@monday") && !snapshots.contains('x'), "{snapshots}");
    folder.ok("snapshot restore s.mj v@monday");
    folder.ok("snapshot delete s.mj v@monday");
    folder.ok("volume delete s.mj v");
    let volumes = folder.ok("volume list s.mj --mapped");
    let cells: Vec<&str> = volumes.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, ["x", "1", "GiB", "0", "B"], "{volumes}");
}

#[test]
fn a_store_is_tended() {
    let folder = Folder::with_store();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    assert!(folder.ok("stats s.mj").contains("write amplification"));
    assert!(folder.ok("gc status s.mj").contains("reclaim:"));
    folder.ok("gc run s.mj");
    folder.ok("checkpoint s.mj");
    let before = folder.path("s.mj").metadata().unwrap().len();
    folder.ok("grow s.mj --size 128M");
    assert!(folder.path("s.mj").metadata().unwrap().len() > before);
    assert!(folder.ok("volume list s.mj").contains('v'));
    assert!(folder.ok("check s.mj").contains("no problems"));
}

#[test]
fn a_volume_with_snapshots_goes_only_with_them() {
    let folder = Folder::with_store();
    folder.ok("snapshot create s.mj v@a");
    folder.ok("snapshot create s.mj v@b");
    folder.refused("volume delete s.mj v", &["v has 2 snapshots", "--snapshots"]);
    folder.ok("volume delete s.mj v --snapshots");
    assert_eq!(folder.ok("volume list s.mj").lines().count(), 1);
    assert_eq!(folder.ok("snapshot list s.mj").lines().count(), 1);
}
