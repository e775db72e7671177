//! The label of a store is there twice: one damaged copy costs a warning, two are refused.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::support::Folder;

const LABELS: [u64; 2] = [0, 64 << 10];

#[test]
fn one_damaged_label_is_reported_and_loses_nothing() {
    for at in LABELS {
        let folder = Folder::with_store();
        let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
        file.write_all_at(b"scribble", at + 40).unwrap();
        let said = folder.run("volume list s.mj");
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains('v'), "{said:?}");
        assert!(said.err.contains(&format!("label at byte {at} is damaged")), "{said:?}");
        let checked = folder.run("check s.mj");
        assert_eq!(checked.code, Some(1), "a damaged label is a problem: {checked:?}");
        assert!(checked.out.contains("problem: "), "{checked:?}");
        assert!(checked.out.contains("serve the store once"), "{checked:?}");
        assert!(!checked.out.contains("another store"), "that mends it: {checked:?}");
        assert_eq!(checked.err, "", "it is told once");
        let warning = format!("warning: s.mj: the label at byte {at} is damaged");
        let warns = || {
            for command in ["scrub s.mj", "stats s.mj"] {
                let said = folder.run(command);
                assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
                assert!(said.out.contains(&warning), "{said:?}");
                assert!(!said.out.contains("no damage\n"), "{said:?}");
            }
        };
        warns();
        let read_only = folder.serve("--read-only");
        warns();
        read_only.stop();
        let server = folder.serve("");
        assert!(server.log().contains(&format!("label at byte {at} is damaged")), "it is told");
        folder.ok("checkpoint s.mj");
        assert!(!folder.ok("check s.mj").contains("problem: "), "it was written anew");
        server.stop();
        assert_eq!(folder.run("volume list s.mj").err, "", "both labels are as they were");
    }
}

/// A growth that was interrupted before the first label, and the second one damaged since.
#[test]
fn a_label_that_is_too_old_to_serve_alone_replaces_nothing() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut old = vec![0; 4096];
    file.read_exact_at(&mut old, LABELS[0]).unwrap();
    folder.ok("grow s.mj --size 80M");
    file.write_all_at(&old, LABELS[0]).unwrap();
    file.write_all_at(b"scribble", LABELS[1] + 40).unwrap();
    let before = std::fs::read(folder.path("s.mj")).unwrap();
    for words in ["volume list s.mj", "serve s.mj", "volume create s.mj w --size 4M"] {
        folder.refused(words, &["s.mj: the store has", "its label is from before it grew"]);
    }
    assert!(std::fs::read(folder.path("s.mj")).unwrap() == before, "something was written");
}

#[test]
fn two_damaged_labels_are_refused() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut saved = [0; 8];
    file.read_exact_at(&mut saved, 40).unwrap();
    for at in LABELS {
        file.write_all_at(b"scribble", at + 40).unwrap();
    }
    for words in ["volume list s.mj", "serve s.mj", "check s.mj"] {
        folder.refused(words, &["s.mj", "both labels are damaged", "backup"]);
    }
    folder.refused("format s.mj --size 64M", &["s.mj", "--force"]);
    for at in LABELS {
        file.write_all_at(&saved, at + 40).unwrap();
    }
    assert!(folder.ok("volume list s.mj").contains('v'), "nothing was lost");
}

#[test]
fn one_damaged_root_is_made_up_for_and_two_are_refused() {
    const ROOTS: [u64; 2] = [128 << 10, 192 << 10];
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    // Both have been written; nothing that the other one names was used again, so it leads to a state
    // that the log brings up to date.
    file.write_all_at(&[0xff; 8], ROOTS[0] + 30).unwrap();
    let said = folder.run("volume list s.mj");
    assert!(said.code == Some(0) && said.out.contains('v'), "{said:?}");
    assert!(said.err.contains(&format!("the root at byte {} is damaged", ROOTS[0])), "{said:?}");
    folder.run("volume create s.mj w --size 4M");
    assert_eq!(folder.run("volume list s.mj").err, "", "a checkpoint wrote that anew");
    for at in ROOTS {
        file.write_all_at(&[0xff; 8], at + 30).unwrap();
    }
    for words in ["volume list s.mj", "serve s.mj", "check s.mj", "salvage s.mj"] {
        let told = folder.refused(words, &["s.mj", "no copy of its root is whole", "all is lost"]);
        assert!(!told.contains("holds no store"), "{told}");
    }
}

#[test]
fn zeroes_over_the_beginning_are_not_taken_for_a_store_that_was_never_made() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut label = [0; 4096];
    file.read_exact_at(&mut label, 0).unwrap();
    file.write_all_at(&[0; 256 << 10], 0).unwrap();
    // By a label that was kept elsewhere.
    file.write_all_at(&label, 0).unwrap();
    for words in ["volume list s.mj", "serve s.mj", "check s.mj", "salvage s.mj"] {
        folder.refused(words, &["s.mj", "its root was overwritten with zeroes"]);
    }
    folder.refused("format s.mj --size 64M", &["s.mj", "--force"]);
}
