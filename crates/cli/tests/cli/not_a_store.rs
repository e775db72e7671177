//! What is not a store is named, left as it is, and the user is told what to do.

use crate::support::Folder;

#[test]
fn a_path_with_nothing_there_says_how_to_make_a_store() {
    let folder = Folder::empty();
    for words in ["volume list x.mj", "serve x.mj", "check x.mj", "grow x.mj --size 1G"] {
        folder.refused(words, &["no store at x.mj", "mjolnir format x.mj"]);
    }
    assert!(!folder.path("x.mj").exists());
    assert!(!folder.path("x.mj.ctl").exists());
}

#[test]
fn other_files_are_refused_and_kept() {
    let folder = Folder::empty();
    let text = b"dear diary\n".repeat(100_000);
    std::fs::write(folder.path("diary"), &text).unwrap();
    std::fs::write(folder.path("empty"), b"").unwrap();
    std::fs::create_dir(folder.path("folder")).unwrap();
    for words in ["volume list diary", "serve diary", "volume create diary v --size 1M"] {
        folder.refused(words, &["diary", "not a Mjolnir store"]);
    }
    folder.refused("stats empty", &["empty", "not a Mjolnir store"]);
    folder.refused("stats folder", &["folder"]);
    folder.refused("format no/s.mj --size 64M", &["no/s.mj", "there is no folder no; make it"]);
    folder.refused("format diary --size 64M", &["diary", "--force"]);
    assert_eq!(std::fs::read(folder.path("diary")).unwrap(), text);
    folder.ok("format diary --size 64M --force");
    folder.ok("volume list diary");
}
