//! Where the store's file goes: a folder on a disk with room enough, which is removed at the end.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use mjolnir_units::ByteSize;
use rustix::fs::{statfs, statvfs};
use tempfile::TempDir;

/// Longest path of a socket, in bytes, less room for its name.
const SOCKET_FOLDER_BYTES_MAX: usize = 90;
/// What the file system may need for itself beside the store.
const SPARE_BYTES: u64 = 64 << 20;
/// File systems that are memory: tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Folders of the demo, removed when this is dropped.
pub struct Place {
    folder: TempDir,
    /// Another one, where the folder's path is too long for a socket.
    sockets: Option<TempDir>,
}

impl Place {
    /// Makes a folder for a store of `bytes` under `wanted`, or, without that, where temporary
    /// files go.
    ///
    /// # Errors
    ///
    /// There is not enough room; the message has the free bytes of each folder that was looked
    /// at.
    pub fn find(wanted: Option<&Path>, bytes: u64) -> Result<Self> {
        let parent = match wanted {
            Some(folder) => {
                let free = free_bytes(folder)?;
                ensure!(
                    free >= bytes + SPARE_BYTES,
                    "{} has {free} bytes free ({}), and the demo needs {}; name another folder \
                     with --dir, or a smaller store with --size",
                    folder.display(),
                    ByteSize(free),
                    ByteSize(bytes + SPARE_BYTES)
                );
                folder.to_owned()
            }
            None => choose(&candidates(), bytes)?,
        };
        let folder = tempfile::Builder::new()
            .prefix("mjolnir-demo-")
            .tempdir_in(&parent)
            .with_context(|| format!("making a folder in {}", parent.display()))?;
        let sockets = match folder.path().as_os_str().len() > SOCKET_FOLDER_BYTES_MAX {
            true => Some(tempfile::Builder::new().prefix("mjolnir-demo-").tempdir()?),
            false => None,
        };
        Ok(Place { folder, sockets })
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("demo.mjolnir")
    }

    /// The NBD server's socket.
    pub fn socket(&self) -> PathBuf {
        self.sockets.as_ref().unwrap_or(&self.folder).path().join("nbd.sock")
    }

    /// Removes the files.
    ///
    /// # Errors
    ///
    /// What could not be removed.
    pub fn remove(self) -> Result<()> {
        let path = self.folder.path().to_owned();
        let removed = self.folder.close();
        self.sockets.map_or(Ok(()), TempDir::close)?;
        removed.with_context(|| format!("removing {}", path.display()))
    }
}

/// Where temporary files may go, the best first.
fn candidates() -> Vec<PathBuf> {
    let mut folders = vec![std::env::temp_dir(), "/var/tmp".into()];
    folders.extend(std::env::current_dir());
    folders
}

fn choose(folders: &[PathBuf], bytes: u64) -> Result<PathBuf> {
    let mut why = Vec::new();
    for folder in folders {
        let name = folder.display();
        match (free_bytes(folder), is_memory(folder)) {
            (Err(error), _) => why.push(format!("{error:#}")),
            (Ok(_), true) => why.push(format!("{name} is in memory, not on a disk")),
            (Ok(free), false) if free < bytes + SPARE_BYTES => {
                why.push(format!("{name} has {free} bytes free ({})", ByteSize(free)));
            }
            (Ok(_), false) => return Ok(folder.clone()),
        }
    }
    bail!(
        "the demo needs {} of disk, and found no room for it: {}; name a folder with --dir, or a \
         smaller store with --size",
        ByteSize(bytes + SPARE_BYTES),
        why.join("; ")
    )
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let stat = statvfs(folder).with_context(|| format!("looking at {}", folder.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn is_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|stat| MEMORY.contains(&(stat.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_is_refused_with_its_free_bytes() {
        let parent = tempfile::tempdir().unwrap();
        let free = free_bytes(parent.path()).unwrap();
        let error = Place::find(Some(parent.path()), 1 << 60).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("has {free} bytes free")), "{error}");
        let error = choose(&[parent.path().into()], 1 << 60).unwrap_err().to_string();
        assert!(error.contains("no room"), "{error}");
    }

    #[test]
    fn folders_are_removed_with_what_they_hold() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::find(Some(parent.path()), 0).unwrap();
        std::fs::write(place.store(), "x").unwrap();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
        place.remove().unwrap();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_has_a_short_path_in_any_folder() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let place = Place::find(Some(&long), 0).unwrap();
        assert!(place.store().starts_with(&long));
        assert!(place.socket().as_os_str().len() < 108, "{:?}", place.socket());
    }
}
