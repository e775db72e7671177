//! Places of warm logs: folders of a memory file system that outlive a server.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::fstatfs;

/// What `statfs` says of tmpfs (linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Folders that are looked at besides those of the environment: those of services lie in the first.
const SERVICES: &str = "/run/mjolnir";
const USUAL: &str = "/dev/shm";

/// In which folders a warm log is looked for, and made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WarmPlace {
    /// Those that the environment names (`MJOLNIR_WARM_LOG`, `RUNTIME_DIRECTORY` of a service), then
    /// `/run/mjolnir`, the folders in it, and `/dev/shm`.
    #[default]
    Usual,
    /// This one alone; what was left is looked for in the others, too.
    Folder(PathBuf),
}

impl WarmPlace {
    /// The folders, the best first.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if let WarmPlace::Folder(folder) = self {
            folders.push(folder.clone());
        }
        folders.extend(env::var_os("MJOLNIR_WARM_LOG").map(PathBuf::from));
        // A service may have several, parted by colons.
        folders.extend(env::var_os("RUNTIME_DIRECTORY").iter().flat_map(env::split_paths));
        folders.push(SERVICES.into());
        let services = std::fs::read_dir(SERVICES).into_iter().flatten().flatten();
        let mut services: Vec<PathBuf> = services.map(|entry| entry.path()).collect();
        services.sort();
        folders.extend(services);
        folders.push(USUAL.into());
        let mut distinct: Vec<PathBuf> = Vec::new();
        for folder in folders.into_iter().filter(|folder| folder.is_absolute()) {
            if !distinct.contains(&folder) {
                distinct.push(folder);
            }
        }
        distinct
    }
}

/// How the files are called in which warm logs of a store lie, of whatever device.
fn name_begin(uuid: &[u8; 16]) -> String {
    let uuid: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("mjolnir-{uuid}-")
}

/// How the file is called in which the warm log of a store lies. The name, and nothing else, tells copies of a
/// store apart, which may be served at the same time.
pub(super) fn name(uuid: &[u8; 16], device: (u64, u64)) -> String {
    format!("{}{:x}-{:x}.warm", name_begin(uuid), device.0, device.1)
}

/// Files beside this one that are called as it is, but for the device.
pub(super) fn others(file: &Path, uuid: &[u8; 16]) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Vec::new() };
    let begin = name_begin(uuid);
    let is_other = |path: &PathBuf| {
        let found = path.file_name().unwrap_or_default();
        let is_of_store = found.to_str().is_some_and(|found| found.starts_with(&begin));
        is_of_store && path.extension() == file.extension() && found != name
    };
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others: Vec<PathBuf> = found.map(|entry| entry.path()).filter(is_other).collect();
    others.sort();
    others
}

/// Whether everybody looks for a log there, whatever the environment.
pub(super) fn is_usual(file: &Path) -> bool {
    let folder = |up| file.ancestors().nth(up);
    [1, 2].iter().any(|up| folder(*up) == Some(Path::new(SERVICES)))
        || folder(1) == Some(Path::new(USUAL))
}

/// Whether its user wonders that a log does not lie there: it was named, or would have been of use.
pub(super) fn is_worth_a_word(file: &Path, error: &io::Error) -> bool {
    let folder = file.parent();
    let is_named = folder == env::var_os("MJOLNIR_WARM_LOG").as_deref().map(Path::new);
    is_named
        || error.kind() != ErrorKind::PermissionDenied
            && folder.is_some_and(|folder| folder.is_dir())
}

/// What the kernel drew when the machine was started.
pub(super) fn boot() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16)
        .map(u128::to_be_bytes)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("the boot id: {error}")))
}

/// Refuses what another user than `owner` made, or may read, or what would not stay in memory.
fn check(file: File, owner: u32) -> io::Result<File> {
    let meta = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    let own = meta.uid() == user || meta.uid() == owner || user == 0;
    if !meta.is_file() || !own || meta.mode() & 0o077 != 0 || meta.nlink() != 1 {
        let why = "it is there already, and not a file of this user's alone";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    if fstatfs(file.as_fd())?.f_type as u64 != TMPFS_MAGIC {
        return Err(io::Error::new(ErrorKind::Unsupported, "it is not in a memory file system"));
    }
    Ok(file)
}

/// Opens a file that may be a warm log of this user's, or of the one who owns the store.
///
/// # Errors
///
/// It is there, and this user may not use it: what it holds would be lost.
pub(super) fn open_existing(path: &Path, owner: u32) -> io::Result<Option<File>> {
    // A folder that this user may not look into is none of this user's servers'.
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    // Nobody else can make one of that name: it follows from what no door tells.
    options.open(path).and_then(|file| check(file, owner)).map(Some).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "{} may hold changes that it acknowledged, and cannot be used: {error}; run this as the user who \
                 served it (`mjolnir serve --warm-log off` gives up what is there)",
                path.display()
            ),
        )
    })
}

/// Makes a file, in the place of one that counts no more: whoever has that one mapped keeps it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let file = options.open(path)?;
    let checked = check(file, rustix::process::geteuid().as_raw());
    if checked.is_err() {
        let _ = std::fs::remove_file(path);
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_comes_first_and_the_usual_ones_are_looked_at_too() {
        let folders = WarmPlace::Folder("/mine".into()).folders();
        assert_eq!(folders[0], Path::new("/mine"));
        assert!(folders.contains(&PathBuf::from("/dev/shm")));
        let expected = format!("mjolnir-{}-10-ff.warm", "ab".repeat(16));
        assert_eq!(name(&[0xab; 16], (16, 255)), expected);
    }

    #[test]
    fn what_is_on_a_disk_or_open_to_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("it");
        create(&path).unwrap();
        let found = |path: &Path| open_existing(path, 0).map(|file| file.is_some());
        assert!(found(&path).unwrap() && !found(&folder.path().join("other")).unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let why = found(&path).unwrap_err().to_string();
        assert!(why.contains("--warm-log off"), "{why}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(found(&link).is_err(), "it may lead anywhere");
        create(&link).unwrap();
        assert!(!link.is_symlink() && path.exists(), "it took the place of the link");
        let proc = Path::new("/proc/self/it");
        assert!(create(proc).is_err());
    }

    #[test]
    fn the_machine_was_started_once() {
        assert_eq!(boot().unwrap(), boot().unwrap());
        assert_ne!(boot().unwrap(), [0; 16]);
    }
}
