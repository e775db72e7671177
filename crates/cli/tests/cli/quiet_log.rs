//! One byte of what was flushed last is damaged, some time after the flush, and the server was killed: the next one
//! says so, `check` says so, and the range is an error, not old data.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::support::{Folder, pattern, wait_until};

const LENGTH: usize = 256 << 10;

/// A store whose server was killed some time after a flush, and where in the file the data lie.
fn killed() -> (Folder, u64) {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    let data = pattern(5, LENGTH);
    client.write(0, 0, &pattern(4, LENGTH)).unwrap();
    client.flush().unwrap();
    client.write(0, 0, &data).unwrap();
    client.flush().unwrap();
    wait_until("the root says how much was flushed", || {
        let stats = folder.ok("stats s.mj --json");
        !stats.contains("\"promises\":0") && !stats.contains("\"promises\": 0")
    });
    std::thread::sleep(Duration::from_millis(1500));
    server.kill();
    let bytes = std::fs::read(folder.path("s.mj")).unwrap();
    let at = bytes.windows(4096).step_by(4096).position(|block| block == &data[..4096]).unwrap();
    (folder, 4096 * at as u64)
}

fn damage(folder: &Folder, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn damaged_data_are_named_by_the_server_and_by_check() {
    let (folder, at) = killed();
    damage(&folder, at + 8192 + 77);
    let checked = folder.run("check s.mj");
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for part in ["is damaged", "A flush had covered", "lost: v:8192+4096"] {
        assert!(checked.out.contains(part), "no {part:?} in {}", checked.out);
    }
    let server = folder.serve("");
    server.wait_for("A flush had covered what was written there");
    let mut client = server.client("v");
    assert!(client.read(8192, 4096).is_err());
    assert!(client.read(0, 8192).unwrap() == pattern(5, LENGTH)[..8192]);
    assert!(client.read(12288, 4096).unwrap() == pattern(5, LENGTH)[12288..16384]);
}

#[test]
fn a_damaged_header_is_a_refusal_that_names_it() {
    let (folder, at) = killed();
    damage(&folder, at - 4096 + 60);
    folder.refused("volume list s.mj", &["fails its checksum", "`mjolnir salvage`"]);
    assert!(folder.ok("salvage s.mj").contains("record"));
}
