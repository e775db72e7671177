//! Names that would be ambiguous, or unsafe to print, are refused with what is odd about them.

use crate::support::Folder;

#[test]
fn odd_names_are_refused_at_rest_and_served() {
    let folder = Folder::with_store();
    let long = "x".repeat(129);
    let attempts = || {
        for (odd, why) in [
            ("a/b", "'/'"),
            ("a:b", "':'"),
            ("a@b", "'@'"),
            ("é", "'é'"),
            ("a\u{7}b", "\\u{7}"),
            (".hidden", "start"),
            (long.as_str(), "long"),
        ] {
            let parts = ["cannot be a name", why, "letters"];
            folder.refused(&format!("volume create s.mj {odd} --size 1M"), &parts);
            folder.refused(&format!("volume rename s.mj v {odd}"), &parts);
            folder.refused(&format!("clone s.mj v {odd}"), &parts);
            folder.refused(&format!("snapshot create s.mj v@{odd}"), &parts);
        }
        assert_eq!(folder.ok("volume list s.mj").lines().count(), 2);
    };
    attempts();
    let server = folder.serve("");
    attempts();
    server.stop();
}

#[test]
fn names_that_are_not_there_are_named() {
    let folder = Folder::with_store();
    folder.refused("volume delete s.mj nosuch", &["nosuch", "volume list"]);
    folder.refused("snapshot create s.mj nosuch@a", &["nosuch"]);
    folder.refused("snapshot delete s.mj v@nosuch", &["v@nosuch"]);
    folder.refused("snapshot list s.mj nosuch", &["nosuch"]);
    folder.refused("range trim s.mj nosuch:0+4K", &["nosuch"]);
    folder.misused("snapshot create s.mj v", &["\"v\"", "VOLUME@NAME"]);
}
