//! `grow` is killed between any two of its steps, and asked for again: it finishes, says what was
//! added, and asked for once more says that nothing was left to do.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::support::Folder;

const LABELS: [usize; 2] = [0, 64 << 10];
const ROOTS: [usize; 2] = [128 << 10, 192 << 10];
const BLOCK: usize = 4096;

/// Finishes what was begun, and then finds nothing to do; the store is sound.
fn finishes(folder: &Folder, case: &str) {
    let said = folder.ok("grow s.mj --size 96M");
    assert_eq!(said, "s.mj: 95 MiB, of which 32 MiB are new\n", "{case}");
    let said = folder.ok("grow s.mj --size 96M");
    assert_eq!(said, "s.mj: 95 MiB; it was that large already, so nothing was added\n", "{case}");
    assert_eq!(fs::metadata(folder.path("s.mj")).unwrap().len(), 96 << 20, "{case}");
    let said = folder.run("check s.mj");
    assert!(said.out.contains("no problems") && said.err.is_empty(), "{case}: {said:?}");
}

/// Its steps are the file's length, the second label, the first one, and a checkpoint.
#[test]
fn what_was_done_before_a_crash_is_gone_on_from() {
    let folder = Folder::with_store();
    let before = fs::read(folder.path("s.mj")).unwrap();
    folder.ok("grow s.mj --size 96M");
    let after = fs::read(folder.path("s.mj")).unwrap();
    let labels = [&[][..], &[1][..], &[1, 0][..]];
    for (case, labels) in ["the length", "the second label", "both labels"].iter().zip(labels) {
        let mut bytes = before.clone();
        bytes.resize(after.len(), 0);
        for at in labels.iter().map(|slot| LABELS[*slot]) {
            bytes[at..at + BLOCK].copy_from_slice(&after[at..at + BLOCK]);
        }
        for at in ROOTS {
            assert_eq!(bytes[at..at + BLOCK], before[at..at + BLOCK], "no checkpoint was taken");
        }
        fs::write(folder.path("s.mj"), &bytes).unwrap();
        finishes(&folder, case);
        // A server that took what it found tells of it, too.
        fs::write(folder.path("s.mj"), &bytes).unwrap();
        let server = folder.serve("");
        let said = folder.ok("grow s.mj --size 96M");
        assert_eq!(said, "s.mj: 95 MiB, of which 32 MiB are new\n", "{case}, served");
        server.stop();
    }
}

/// One that is killed at any moment never keeps the next one from ending well.
#[test]
fn one_that_is_killed_can_be_repeated() {
    let folder = Folder::with_store();
    let before = fs::read(folder.path("s.mj")).unwrap();
    for after_us in (0..24).map(|step| step * step * 60) {
        fs::write(folder.path("s.mj"), &before).unwrap();
        let mut child = folder.command("grow s.mj --size 96M").spawn().unwrap();
        std::thread::sleep(Duration::from_micros(after_us));
        let _ = child.kill();
        child.wait().unwrap();
        let said = folder.ok("grow s.mj --size 96M");
        let told = ["of which 32 MiB are new\n", "so nothing was added\n"];
        assert!(told.iter().any(|told| said.ends_with(told)), "after {after_us} µs: {said}");
        assert!(folder.ok("check s.mj").contains("no problems"), "after {after_us} µs");
        assert!(folder.ok("grow s.mj --size 96M").contains("nothing was added"));
    }
}

/// The space of a store that reserves it is reserved by the one that finishes, though the file was long
/// enough already.
#[test]
fn reserved_space_is_reserved_by_the_one_that_finishes() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::empty();
    folder.ok("format s.mj --size 64M --preallocate");
    let file = OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap();
    file.set_len(96 << 20).unwrap();
    file.write_all_at(&[0], (96 << 20) - 1).unwrap();
    finishes(&folder, "the length");
    let taken = fs::metadata(folder.path("s.mj")).unwrap().blocks() * 512;
    assert!(taken >= 96 << 20, "{taken} bytes are taken");
}
