//! Other programs: peers, and clients that drive them and us.

use std::path::PathBuf;

/// Whether a program is on `PATH`.
pub fn is_there(program: &str) -> bool {
    find(program).is_some()
}

/// Where a program lies on `PATH`, or where root's programs usually lie.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
