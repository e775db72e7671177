//! Where files go, and what is cleaned up however the run ends.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

/// Programs that run now: a signal ends them too.
static CHILDREN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// A signal is ending the run.
static ENDING: AtomicBool = AtomicBool::new(false);

/// If a signal is ending the run, never returns: what went wrong since is no failure of a row.
pub fn yield_to_the_end() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// A folder that goes when the run ends, by itself or by a signal.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// A new folder in `parent`, or beside this program.
    pub fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = match parent {
            Some(parent) => parent.to_owned(),
            None => std::env::current_exe()
                .context("cannot tell where this program lies; say --dir")?
                .parent()
                .context("this program lies nowhere; say --dir")?
                .to_owned(),
        };
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        clean_up_on_signals(folder.path().to_owned())?;
        Ok(Place { folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Removes everything in the folder.
    pub fn clear(&self) -> Result<()> {
        let path = self.folder.path();
        let entries = path.read_dir().with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            let file = entry.with_context(|| format!("cannot list {}", path.display()))?.path();
            let removed = if file.is_dir() {
                std::fs::remove_dir_all(&file)
            } else {
                std::fs::remove_file(&file)
            };
            removed.with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }

    /// Bytes that the disk has left.
    pub fn room(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(self.path()).context("cannot ask how full the disk is")?;
        Ok(stat.f_bavail * stat.f_frsize)
    }
}

/// Remembers a program, to end it if a signal ends this one.
pub fn adopt(id: u32) {
    children().push(id);
}

/// Forgets a program that has ended.
pub fn release(id: u32) {
    children().retain(|child| *child != id);
}

fn children() -> std::sync::MutexGuard<'static, Vec<u32>> {
    CHILDREN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Interrupted, a row may hold gigabytes of disk and several servers.
fn clean_up_on_signals(folder: PathBuf) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .context("cannot watch for signals")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            ENDING.store(true, Ordering::SeqCst);
            for child in children().iter() {
                if let Some(pid) = i32::try_from(*child).ok().and_then(Pid::from_raw) {
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                eprintln!("cannot remove {}: {error}", folder.display());
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
