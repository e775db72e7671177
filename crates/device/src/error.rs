//! Errors of devices.

use std::fmt;

/// An error of a device: a stable kind, and the context in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeviceError {
    /// What sort of failure; code decides by this.
    pub kind: ErrorKind,
    /// What was tried, on what, and what the system said; people read this.
    pub context: String,
}

/// The sorts of device failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A request that breaks the contract: out of range, off the write pointer, misaligned.
    Invalid,
    /// The medium could not return these blocks; others may be fine.
    Unreadable,
    /// The backing store has no room for an append (a sparse file on a full disk).
    NoSpace,
    /// The device or its medium failed in another way.
    Io,
    /// The container is not ours, is of another version, or is damaged.
    Format,
    /// Another process holds the device.
    Busy,
    /// The device is gone: simulated power cut, unplugged.
    Gone,
}

impl DeviceError {
    /// An error of `kind` with its context.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        DeviceError { kind, context: context.into() }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}
