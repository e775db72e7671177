//! A server that is killed loses nothing that was flushed; the next one replaces its sockets.

use crate::support::nbd::FUA;
use crate::support::{Folder, pattern};

#[test]
fn what_was_flushed_survives_a_kill() {
    let folder = Folder::with_store();
    for round in 0..5u64 {
        let server = folder.serve("");
        let mut client = server.client("v");
        client.write(0, 0, &pattern(round, 2 << 20)).unwrap();
        client.flush().unwrap();
        client.write(FUA, 4 << 20, &pattern(100 + round, 65536)).unwrap();
        client.write(0, 8 << 20, &pattern(200 + round, 65536)).unwrap();
        if round % 2 == 0 {
            folder.ok(&format!("snapshot create s.mj v@round{round}"));
        }
        server.kill();
        assert!(folder.path("s.mj.ctl").exists(), "a crash leaves the socket");
        let server = folder.serve("");
        let mut client = server.client("v");
        assert!(client.read(0, 2 << 20).unwrap() == pattern(round, 2 << 20));
        assert!(client.read(4 << 20, 65536).unwrap() == pattern(100 + round, 65536));
        if round % 2 == 0 {
            let mut snapshot = server.client(&format!("v@round{round}"));
            assert!(snapshot.read(8 << 20, 65536).unwrap() == pattern(200 + round, 65536));
        }
        server.kill();
    }
    assert!(folder.ok("check s.mj").contains("no problems"), "at rest, past the stale socket");
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    assert_eq!(folder.ok("snapshot list s.mj").lines().count(), 4);
}
