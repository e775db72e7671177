//! A store served for reading only is not written to, and says so to whoever tries.

use crate::support::nbd::EPERM;
use crate::support::{Folder, pattern};

#[test]
fn a_store_served_for_reading_stays_as_it_was() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 65536)).unwrap();
    client.flush().unwrap();
    // The log past the last checkpoint has to be replayed.
    server.kill();
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    let server = folder.serve("--read-only");
    let mut client = server.client("v");
    assert!(client.read(0, 65536).unwrap() == pattern(1, 65536));
    assert_eq!(client.write(0, 0, &[0; 4096]), Err(EPERM));
    assert_eq!(client.trim(0, 4096), Err(EPERM));
    for words in ["volume create s.mj w --size 1M", "volume delete s.mj v", "gc run s.mj"] {
        folder.refused(words, &["reading only"]);
    }
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
    assert!(!folder.ok("stats s.mj").contains("FAILED"), "that it takes no changes was asked for");
    server.stop();
    for words in ["volume list s.mj", "stats s.mj", "check s.mj", "scrub s.mj"] {
        folder.ok(words);
    }
    assert!(std::fs::read(folder.path("s.mj")).unwrap() == before, "not a byte has changed");
}
