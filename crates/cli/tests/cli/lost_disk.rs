//! The disk below a served store loses everything: clients get errors, the server says what is
//! wrong and stays, and later commands name what they find.

use std::fs::OpenOptions;

use crate::support::{Folder, nbd, pattern};

#[test]
fn a_lost_disk_ends_in_errors_and_not_in_a_crash() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 1 << 20)).unwrap();
    client.flush().unwrap();
    let file = OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap();
    file.set_len(0).unwrap();
    assert!(client.read(0, 1 << 20).is_err(), "no data is made up");
    let said = folder.run("scrub s.mj");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(folder.ok("volume list s.mj").contains('v'), "the server is still there");
    drop(client);
    server.signal(rustix::process::Signal::TERM);
    server.wait();
    folder.refused("volume list s.mj", &["s.mj", "store"]);
    folder.refused("serve s.mj", &["s.mj", "store"]);
}

#[test]
fn a_damaged_block_is_an_error_of_its_reader_alone() {
    use std::os::unix::fs::FileExt;
    let folder = Folder::with_store();
    let data = pattern(7, 1 << 20);
    let server = folder.serve("");
    server.client("v").write(0, 0, &data).unwrap();
    server.stop();
    // Finds the fourth block of it in the file, and flips a bit.
    let image = std::fs::read(folder.path("s.mj")).unwrap();
    let block = &data[3 * 4096..4 * 4096];
    let at = image.chunks(4096).position(|chunk| chunk == block).unwrap() * 4096;
    let file = OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap();
    file.write_all_at(&[image[at] ^ 1], at as u64).unwrap();
    let said = folder.run("scrub s.mj");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("damaged: "), "{said:?}");
    assert!(said.out.contains("lost: v:12288+4096"), "{said:?}");
    let server = folder.serve("");
    let mut client = server.client("v");
    assert_eq!(client.read(3 * 4096, 4096), Err(nbd::EIO));
    assert!(client.read(4 * 4096, 4096).unwrap() == data[4 * 4096..5 * 4096]);
    client.write(0, 3 * 4096, block).unwrap();
    assert!(client.read(0, 1 << 20).unwrap() == data, "writing the block anew mends it");
    server.stop();
}
