//! Things of the kernel that a test makes, and that go with it however it ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::tools;

/// How long a mount may take to appear, or a device to be let go of.
const PATIENCE: Duration = Duration::from_secs(30);

/// An export as a file: `nbdfuse` on a file of its own.
pub struct Fuse {
    child: Child,
    file: PathBuf,
}

impl Fuse {
    /// Shows the export at `uri` as the file `file`.
    pub fn new(uri: &str, file: PathBuf) -> Self {
        fs::write(&file, []).unwrap();
        let before = fs::metadata(&file).unwrap().dev();
        let mut command = tools::lasting("nbdfuse");
        let child = command.arg(&file).arg(uri).stdin(Stdio::null()).spawn().unwrap();
        let mut fuse = Fuse { child, file };
        let begun = Instant::now();
        while fs::metadata(&fuse.file).is_ok_and(|now| now.dev() == before) {
            assert!(fuse.child.try_wait().unwrap().is_none(), "nbdfuse ended");
            assert!(begun.elapsed() < PATIENCE, "nbdfuse does not mount");
            std::thread::sleep(Duration::from_millis(20));
        }
        fuse
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // nbdfuse ends, and flushes, once nothing is mounted. A loop device may hold on for a bit.
        let begun = Instant::now();
        while !is_done("fusermount3", &["-u".as_ref(), self.file.as_ref()]) {
            if begun.elapsed() > PATIENCE {
                is_done("fusermount3", &["-u".as_ref(), "-z".as_ref(), self.file.as_ref()]);
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        while begun.elapsed() < PATIENCE && self.child.try_wait().is_ok_and(|end| end.is_none()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loop device over a file.
pub struct Loop {
    device: String,
}

impl Loop {
    pub fn new(file: &Path) -> Self {
        let device = tools::succeed(
            tools::command("losetup").args(["--find", "--show", "--sector-size", "4096"]).arg(file),
        );
        Loop { device: device.trim().to_owned() }
    }

    pub fn device(&self) -> &str {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        is_done("losetup", &["-d".as_ref(), self.device.as_ref()]);
    }
}

/// A file system that is mounted.
pub struct Mount {
    folder: PathBuf,
}

impl Mount {
    pub fn new(device: &str, folder: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let mut command = tools::command("mount");
        tools::succeed(command.args(["-t", "ext4", "-o", options, device]).arg(&folder));
        Mount { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let folder = self.folder.as_os_str();
        let _ = is_done("umount", &[folder]) || is_done("umount", &["-l".as_ref(), folder]);
    }
}

fn is_done(program: &str, arguments: &[&std::ffi::OsStr]) -> bool {
    tools::run(tools::command(program).args(arguments)).code == Some(0)
}
