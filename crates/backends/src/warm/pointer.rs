//! Pointers: each names the warm log of a server that was given another folder than the usual ones.
//! The pointer lies at the log's usual place, so that commands without that option find the log,
//! too.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::place;

/// The longest path, in bytes (linux/limits.h).
const PATH_BYTES_MAX: u64 = 4096;

/// The pointer in the place of a log.
pub(super) fn of(log: &Path) -> PathBuf {
    log.with_extension("at")
}

/// Where a pointer leads; `None` if there is no pointer.
pub(super) fn read(pointer: &Path, owner: u32) -> io::Result<Option<PathBuf>> {
    let Some(file) = place::open_existing(pointer, owner)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(PATH_BYTES_MAX).read_to_end(&mut bytes)?;
    let log = PathBuf::from(OsString::from_vec(bytes));
    Ok(log.is_absolute().then_some(log))
}

/// Makes a pointer in the first of these places of logs that takes one.
pub(super) fn write<'a>(
    places: impl Iterator<Item = &'a PathBuf>,
    log: &Path,
) -> Result<PathBuf, String> {
    let mut why = String::from("there is no usual folder");
    for pointer in places.map(|place| of(place)) {
        let made =
            place::create(&pointer).and_then(|mut it| it.write_all(log.as_os_str().as_bytes()));
        match made {
            Ok(()) => return Ok(pointer),
            Err(error) => why = format!("{}: {error}", pointer.display()),
        }
    }
    Err(why)
}

/// Why a store whose pointer leads nowhere is not opened.
pub(super) fn dangles(pointer: &Path, log: &Path) -> io::Error {
    let (pointer, log) = (pointer.display(), log.display());
    let what = format!(
        "{log} may hold changes that it acknowledged, and is not there, or not for this user to see; bring the \
         folder back, or remove {pointer}, which names it, to give up what it held"
    );
    io::Error::new(io::ErrorKind::NotFound, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_log_and_the_first_folder_that_takes_it_has_it() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let places = ["/nonexistent/it.warm".into(), folder.path().join("it.warm")];
        let pointer = write(places.iter(), Path::new("/mine/it.warm")).unwrap();
        assert_eq!(pointer, folder.path().join("it.at"));
        assert_eq!(read(&pointer, 0).unwrap(), Some("/mine/it.warm".into()));
        assert_eq!(read(&folder.path().join("other.at"), 0).unwrap(), None);
        let why = write(places[..1].iter(), Path::new("/mine/it.warm")).unwrap_err();
        assert!(why.contains("/nonexistent/it.at"), "{why}");
    }
}
