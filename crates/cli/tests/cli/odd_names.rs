//! Names that would be ambiguous, or unsafe to print, are refused with what is odd about them.

use crate::support::{Folder, program};

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
fn what_to_do_next_with_an_odd_path_can_be_pasted() {
    let folder = Folder::empty();
    let mut command = folder.command("format");
    let made = command.args(["it's a store", "--size", "64M"]).output().unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let next = made.lines().find(|line| line.contains("volume create")).expect("what is next");
    let words = next.trim().strip_prefix("mjolnir").unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("\"$0\" {words}")]).arg(program()).current_dir(folder.path(""));
    let said = shell.output().unwrap();
    assert!(said.status.success(), "{next}: {}", String::from_utf8_lossy(&said.stderr));
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
