//! Sizes that cannot be are refused with the value and with what can be.

use crate::support::Folder;

#[test]
fn sizes_that_are_none_are_misuse() {
    let folder = Folder::empty();
    for (words, odd) in [
        ("format s.mj --size 10X", "10X"),
        ("format s.mj --size 1.5G", "1.5G"),
        ("format s.mj --size lots", "lots"),
        ("format s.mj --size -1G", "-1G"),
        ("format s.mj --size 99999999999P", "99999999999P"),
    ] {
        folder.misused(words, &[odd, "such as 10G"]);
    }
    assert!(!folder.path("s.mj").exists());
}

#[test]
fn stores_that_cannot_be_are_not_made() {
    let folder = Folder::empty();
    folder.refused("format s.mj", &["s.mj", "how large"]);
    folder.refused("format s.mj --size 0", &["s.mj", "at least"]);
    folder.refused("format s.mj --size 4M", &["s.mj", "at least"]);
    folder.refused("format s.mj --size 1G --segment-size 512M", &["s.mj", "at least"]);
    folder.refused("format s.mj --size 64M --segment-size 5000", &["5000", "multiple of 4096"]);
    folder.refused("format s.mj --size 64M --segment-size 4K", &["segments", "at least"]);
    let many = "format s.mj --size 4T --segment-size 1M";
    folder.refused(many, &["s.mj", "segments of 1 MiB are too many", "larger segments"]);
    assert!(!folder.path("s.mj").exists());
}

#[test]
fn volumes_that_cannot_be_are_not_made() {
    let folder = Folder::with_store();
    for bytes in ["0", "1000", "300T"] {
        folder.refused(
            &format!("volume create s.mj w --size {bytes}"),
            &["cannot have", "multiple of 512"],
        );
        folder.refused(
            &format!("volume resize s.mj v --size {bytes}"),
            &["cannot have", "multiple of 512"],
        );
    }
    folder.ok("volume create s.mj w --size 256T");
    assert!(folder.ok("volume list s.mj").contains("16 MiB"));
}

#[test]
fn a_store_does_not_shrink() {
    let folder = Folder::with_store();
    folder.refused("grow s.mj --size 32M", &["32", "does not shrink"]);
    let before = folder.path("s.mj").metadata().unwrap().len();
    folder.refused("grow s.mj --size 1P", &["segments of 1 MiB are too many", "larger segments"]);
    assert_eq!(folder.path("s.mj").metadata().unwrap().len(), before);
    assert!(folder.ok("volume list s.mj").contains('v'));
}
