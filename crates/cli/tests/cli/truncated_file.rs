//! A file that lost its end is refused, with both sizes named.

use std::fs::OpenOptions;

use crate::support::Folder;

#[test]
fn a_truncated_store_is_refused_and_works_again_once_it_is_whole() {
    let folder = Folder::with_store();
    let whole = std::fs::read(folder.path("s.mj")).unwrap();
    let file = OpenOptions::new().write(true).open(folder.path("s.mj")).unwrap();
    for length in [whole.len() as u64 - 4096, 2 << 20, 100_000, 4096, 16] {
        file.set_len(length).unwrap();
        for words in ["volume list s.mj", "serve s.mj", "volume create s.mj w --size 1M"] {
            folder.refused(words, &["s.mj", "truncated"]);
        }
        assert_eq!(file.metadata().unwrap().len(), length, "it was left as it was");
    }
    std::fs::write(folder.path("s.mj"), whole).unwrap();
    assert!(folder.ok("volume list s.mj").contains('v'));
}
