//! Errors of the host.

use std::fmt;
use std::io;

/// An error of the host: a stable kind, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct HostError {
    /// Code decides by this.
    pub kind: HostErrorKind,
    /// People read this.
    pub context: String,
}

/// The sorts of host error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostErrorKind {
    /// What cannot be used, or done, as asked.
    Invalid,
    /// Another program has it.
    Busy,
    /// Something is there already, and is not to be lost.
    Exists,
    /// Nothing can be written there: the file system is read-only, or permission is missing.
    Unwritable,
    /// The system refused.
    Io,
}

impl HostError {
    /// An error of `kind` with its sentence.
    pub fn new(kind: HostErrorKind, context: impl Into<String>) -> Self {
        HostError { kind, context: context.into() }
    }

    /// What the system said when something was tried.
    pub(crate) fn of(what: String) -> impl FnOnce(io::Error) -> HostError {
        move |error| {
            let kind = match error.kind() {
                io::ErrorKind::AddrInUse => HostErrorKind::Busy,
                _ => HostErrorKind::Io,
            };
            HostError::new(kind, format!("{what}: {error}"))
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}
