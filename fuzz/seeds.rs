//! The seeds of a corpus: inputs that a test makes, so that nobody has to take a file's word for
//! what is in it.
#![allow(dead_code)] // Each test that includes this uses a part of it.

use std::path::PathBuf;

/// Where a corpus lies.
pub fn folder(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target)
}

/// Holds the corpus to its seeds, or writes them anew where `MJOLNIR_WRITE_CORPUS` is set.
///
/// # Panics
///
/// If a file is not what the seed of its name is.
pub fn hold(target: &str, seeds: Vec<(&str, Vec<u8>)>) {
    let folder = folder(target);
    for (name, bytes) in seeds {
        let path = folder.join(name);
        if std::env::var_os("MJOLNIR_WRITE_CORPUS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        let stored = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(stored == bytes, "{} is not what this test makes", path.display());
    }
}
