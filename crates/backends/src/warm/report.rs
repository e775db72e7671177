//! Reports about a warm log.

use std::path::{Path, PathBuf};

/// Of what the last server left, and of what this one keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmReport {
    /// What the last server left.
    pub left: Option<WarmLeft>,
    /// Where what is acknowledged lies from now on.
    pub path: Option<PathBuf>,
    /// What is odd about that, in words.
    pub notes: Vec<String>,
}

/// What a server left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmLeft {
    /// The file.
    pub path: PathBuf,
    /// Changes in it. Some may have arrived on the device all the same.
    pub records: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
}

impl WarmReport {
    /// It lies there, since better places `failed`.
    pub(super) fn begin(&mut self, path: &Path, failed: Vec<String>) {
        if !failed.is_empty() {
            self.notes.push(format!(
                "the warm log is {}, since it could not be {}",
                path.display(),
                failed.join("; nor ")
            ));
        }
        self.path = Some(path.to_owned());
    }

    /// Nothing leads to it.
    pub(super) fn is_hidden(&mut self, path: &Path, why: &str) {
        let folder = path.parent().unwrap_or(path).display();
        self.notes.push(format!(
            "if this server crashes, other commands find its warm log {} only with MJOLNIR_WARM_LOG={folder}, since no \
             note of it can be left: {why}",
            path.display()
        ));
    }
}
