//! The same session on a store that is being served: commands reach the server through its
//! control socket, clients see what they do, and all of it is there after a restart.

use crate::support::nbd::{EPERM, FUA};
use crate::support::{Folder, pattern};

#[test]
fn commands_and_clients_share_a_store() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    assert!(server.ready.contains("nbd+unix:///v?socket="), "{}", server.ready);
    let mut client = server.client("v");
    assert_eq!(client.size, 16 << 20);
    let (old, new) = (pattern(1, 65536), pattern(2, 65536));
    client.write(0, 4096, &old).unwrap();
    folder.ok("snapshot create s.mj v@monday");
    client.write(FUA, 4096, &new).unwrap();
    folder.ok("clone s.mj v@monday w");
    // Of two volumes at one instant, or of none.
    let both = folder.ok("snapshot create s.mj v@noon w@noon");
    assert!(both.contains("v@noon") && both.contains("w@noon"), "{both}");
    folder.refused("snapshot create s.mj v@night w@noon", &["\"w@noon\" is taken"]);
    folder.refused("snapshot delete s.mj v@night", &["no snapshot named \"v@night\""]);
    let none = folder.run("snapshot diff s.mj v@sunday");
    assert_eq!((none.code, &*none.out), (Some(1), ""), "{none:?}");
    let diff = folder.ok("snapshot diff s.mj v@monday");
    let cells: Vec<&str> = diff.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, ["4096", "65536", "data"], "{diff}");
    assert_eq!(client.read(4096, 65536).unwrap(), new);
    let mut clone = server.client("w");
    assert_eq!(clone.read(4096, 65536).unwrap(), old);
    assert_eq!(clone.read(0, 4096).unwrap(), [0; 4096]);
    let mut snapshot = server.client("v@monday");
    assert_eq!(snapshot.read(4096, 65536).unwrap(), old);
    assert_eq!(snapshot.write(0, 0, &[1; 4096]), Err(EPERM));
    folder.ok("volume create s.mj x --size 1M");
    server.client("x").write(0, 0, &new).unwrap();
    folder.refused("snapshot restore s.mj v@monday", &["v is in use by 1 client", "--force"]);
    assert_eq!(client.read(4096, 65536).unwrap(), new);
    folder.ok("snapshot restore s.mj v@monday --force");
    assert_eq!(client.read(4096, 65536).unwrap(), old);
    server.stop();

    let volumes = folder.ok("volume list s.mj");
    assert_eq!(volumes.lines().count(), 4, "{volumes}");
    let server = folder.serve("");
    assert_eq!(server.client("x").read(0, 65536).unwrap(), new);
    assert_eq!(server.client("v").read(4096, 65536).unwrap(), old);
    server.stop();
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn a_served_store_is_tended() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    for round in 0..8 {
        client.write(0, 0, &pattern(round, 4 << 20)).unwrap();
    }
    let checked = folder.ok("check s.mj");
    assert!(checked.contains("online") && checked.contains("not checked"), "{checked}");
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    let stats = folder.ok("stats s.mj");
    assert!(stats.contains("32 MiB accepted from clients"), "{stats}");
    // Reclaim may have begun by itself; what counts is that all but one round is free.
    let won: serde_json::Value =
        serde_json::from_str(&folder.ok("gc run s.mj --json")).expect("it is JSON");
    assert!(won["free_bytes"].as_u64().unwrap() > 50 << 20, "{won}");
    folder.ok("grow s.mj --size 96M");
    folder.ok("checkpoint s.mj");
    assert_eq!(client.read(0, 4 << 20).unwrap(), pattern(7, 4 << 20));
    server.stop();
}

#[test]
fn reclaim_settings_are_taken() {
    let folder = Folder::with_store();
    let server = folder.serve(
        "--memory 64M --reclaim-start 10% --reclaim-threshold 100% --policy cost-benefit \
         --scan-cpu 50% --streams 2 --io pool --direct never",
    );
    let mut client = server.client("v");
    for round in 0..16 {
        client.write(0, (round % 4) << 20, &pattern(round, 1 << 20)).unwrap();
    }
    for round in 12..16 {
        assert_eq!(client.read((round % 4) << 20, 1 << 20).unwrap(), pattern(round, 1 << 20));
    }
    let stats = folder.ok("stats s.mj");
    assert!(stats.contains("apart, 2 streams, what clients write spread over 2"), "{stats}");
    server.stop();
    let server = folder.serve("--placement sepbit --streams 4");
    server.wait_for("--streams 4 is not in force");
    server.stop();
    folder.misused("serve s.mj --policy gredy", &["greedy", "cost-benefit"]);
    folder.misused("serve s.mj --placement sepbits", &["sepbit", "apart"]);
    folder.misused("serve s.mj --reclaim-start 150%", &["150%", "0% to 100%"]);
    folder.misused("serve s.mj --streams 9", &["9"]);
}
