//! The recordings that are shipped, within the program, and traces by name or path.

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read};
use std::path::PathBuf;

use mjolnir_experiment::nearest_hint;

/// The bytes of a file of `/recordings`.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../recordings/", $name, ".mjtrace")))),*]
    };
}

/// Name and bytes of each: some 3 MB in all, which take memory only where they are read.
pub const RECORDINGS: &[(&str, &[u8])] =
    shipped!["rocksdb", "rocksdb-two", "mariadb", "fio-rates", "sqlite", "build"];

fn shipped(name: &str) -> Option<&'static [u8]> {
    RECORDINGS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// Whether a shipped recording has that name.
pub fn is_shipped(name: &str) -> bool {
    shipped(name).is_some()
}

/// A shipped recording by its name, or a trace by its path.
///
/// # Errors
///
/// Those of opening the file; where there is none, the nearest name of a recording is in it.
pub fn open(name_or_path: &str) -> Result<Box<dyn Read>, Error> {
    if let Some(bytes) = shipped(name_or_path) {
        return Ok(Box::new(bytes));
    }
    match File::open(name_or_path) {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let hint = nearest_hint(name_or_path, RECORDINGS.iter().map(|(name, _)| *name));
            Err(Error::new(ErrorKind::NotFound, format!("{error}{hint}")))
        }
        Err(error) => Err(error),
    }
}

/// The file to read; `None` for what is shipped.
pub fn path(name_or_path: &str) -> Option<PathBuf> {
    shipped(name_or_path).is_none().then(|| PathBuf::from(name_or_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_recordings_of_the_repository_are_within() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|found| found == "mjtrace"));
        let mut stems: Vec<_> = files.map(|path| path.file_stem().unwrap().to_owned()).collect();
        stems.sort();
        let mut names: Vec<&str> = RECORDINGS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(stems, names);
    }

    #[test]
    fn a_name_with_a_slip_is_told_the_nearest() {
        let why = open("sqlit").err().unwrap().to_string();
        assert!(why.contains("\"sqlite\" comes nearest"), "{why}");
        assert!(path("sqlite").is_none() && path("mine.mjtrace").is_some());
    }
}
