//! The errors of a store.

use std::fmt;

/// An error of a store: a stable kind, and a sentence with the offending value and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// For code, and for a wire protocol's error number.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
}

/// The kinds of refusal and failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A request that can never succeed: bad size, bad name, range past the end.
    Invalid,
    /// No volume or snapshot has that name.
    NotFound,
    /// The name is taken.
    Exists,
    /// The target is a snapshot, or the store is open for reading only.
    ReadOnly,
    /// No space is left, even after reclaim.
    NoSpace,
    /// The target is in use and cannot be removed or changed now.
    Busy,
    /// The media lost or damaged data; the message names the address.
    Damaged,
    /// The device failed.
    Io,
    /// The media hold no store, or a store that this version cannot read.
    Format,
    /// The store cannot do this, or only slowly where the request demands a fast operation.
    Unsupported,
    /// The store is shutting down or has failed.
    Closed,
}

impl Error {
    /// An error of `kind` with its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
