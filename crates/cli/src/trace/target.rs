//! The file that a trace is converted to: whole, or not there.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Standard output, or a file that gets its name once it is whole.
pub enum Target {
    Stdout,
    File { file: NamedTempFile, path: PathBuf, force: bool },
}

impl Target {
    /// Begins a target.
    pub fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        let name = path.display();
        if path.symlink_metadata().is_ok() && !force {
            return Err(Failure::new(format!(
                "{name} exists: choose another name, or replace it with --force"
            )));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(".mjolnir-trace-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|error| Failure::new(format!("making {name}: {error}")))?;
        Ok(Target::File { file, path: path.to_owned(), force })
    }

    pub fn is_stdout(&self) -> bool {
        matches!(self, Target::Stdout)
    }

    /// Gives the file its name.
    pub fn keep(self) -> Result<(), Failure> {
        let Target::File { file, path, force } = self else { return Ok(()) };
        let kept = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        match kept {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(format!("naming {}: {}", path.display(), error.error))),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stdout => io::stdout().lock().write(bytes),
            // Whose errors name no file that nobody has heard of.
            Target::File { file, .. } => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stdout => io::stdout().lock().flush(),
            Target::File { file, .. } => file.as_file_mut().flush(),
        }
    }
}
