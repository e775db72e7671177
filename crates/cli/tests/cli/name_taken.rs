//! A name that is taken is not given twice, and what has it stays as it was.

use crate::support::Folder;

#[test]
fn a_taken_name_is_refused_at_rest_and_served() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj w --size 1M");
    folder.ok("snapshot create s.mj v@a");
    let attempts = || {
        for words in [
            "volume create s.mj v --size 1M",
            "volume rename s.mj w v",
            "clone s.mj w v",
            "clone s.mj v@a v",
        ] {
            folder.refused(words, &["\"v\"", "taken", "choose another"]);
        }
        folder.refused("snapshot create s.mj v@a", &["\"v@a\"", "taken"]);
        let volumes = folder.ok("volume list s.mj");
        assert!(volumes.contains("16 MiB") && volumes.contains("1 MiB"), "{volumes}");
    };
    attempts();
    let server = folder.serve("");
    attempts();
    server.stop();
}
