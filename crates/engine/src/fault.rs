//! Converts device errors to errors of the Store contract.

use mjolnir_device::{DeviceError, ErrorKind as DeviceKind};
use mjolnir_store::{Error, ErrorKind};

/// Advice for an unreadable block; scrub reports omit it.
pub(crate) const SCRUB: &str = "; run a scrub to see what is affected";

/// A device error, prefixed with the engine's action.
pub(crate) fn device(doing: &str, error: DeviceError) -> Error {
    let (kind, advice) = match error.kind {
        DeviceKind::NoSpace => (ErrorKind::NoSpace, ""),
        DeviceKind::Unreadable => (ErrorKind::Damaged, SCRUB),
        DeviceKind::Format => (ErrorKind::Format, ""),
        DeviceKind::Busy => (ErrorKind::Busy, ""),
        DeviceKind::Io | DeviceKind::Gone | DeviceKind::Invalid => (ErrorKind::Io, ""),
    };
    Error::new(kind, format!("{doing}: {error}{advice}"))
}

/// An error of kind `Damaged`: the medium does not hold valid data.
pub(crate) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Damaged, message)
}
