//! A store that a newer version made is refused, with both versions named, and left as it is.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::support::Folder;

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let folder = Folder::with_store();
    let file = OpenOptions::new().read(true).write(true).open(folder.path("s.mj")).unwrap();
    let mut saved = Vec::new();
    for at in [0, 64 << 10] {
        let mut label = vec![0; 4096];
        file.read_exact_at(&mut label, at).unwrap();
        saved.push((at, label.clone()));
        label[8..12].copy_from_slice(&7u32.to_le_bytes());
        let checksum = crc32c::crc32c(&label[..4092]);
        label[4092..].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&label, at).unwrap();
    }
    for words in ["volume list s.mj", "serve s.mj", "volume create s.mj w --size 1M"] {
        folder.refused(words, &["s.mj", "version 7", "version 1"]);
    }
    for (at, label) in saved {
        file.write_all_at(&label, at).unwrap();
    }
    assert!(folder.ok("volume list s.mj").contains('v'), "nothing was lost");
}
