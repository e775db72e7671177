//! Errors of the host.

use std::fmt;
use std::io;

/// An error of the host: a stable kind, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct HostError {
    /// For code.
    pub kind: HostErrorKind,
    /// For people.
    pub context: String,
}

/// The kinds of host error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostErrorKind {
    /// The request cannot be satisfied as given.
    Invalid,
    /// Another program uses the target.
    Busy,
    /// The target exists, and must not be lost.
    Exists,
    /// The place is not writable: the file system is read-only, or permission is missing.
    Unwritable,
    /// The system refused.
    Io,
}

impl HostError {
    /// An error of `kind` with its sentence.
    pub fn new(kind: HostErrorKind, context: impl Into<String>) -> Self {
        HostError { kind, context: context.into() }
    }

    /// Makes an [`Io`](HostErrorKind::Io) error of the system's error on the attempt `what`.
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
