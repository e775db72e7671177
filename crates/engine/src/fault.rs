//! From the errors of rooms below to the errors of the Store contract.

use mjolnir_device::{DeviceError, ErrorKind as DeviceKind};
use mjolnir_store::{Error, ErrorKind};

/// What to do about a block that cannot be had; a scrub leaves it out of what it says.
pub(crate) const SCRUB: &str = "; run a scrub to see what is affected";

/// A device error, with what the engine was doing.
pub(crate) fn device(doing: &str, error: DeviceError) -> Error {
    let (kind, advice) = match error.kind {
        DeviceKind::NoSpace => (
            ErrorKind::NoSpace,
            "; then open the store again (restart its server, if it is served)",
        ),
        DeviceKind::Unreadable => (ErrorKind::Damaged, SCRUB),
        DeviceKind::Format => (ErrorKind::Format, ""),
        DeviceKind::Busy => (ErrorKind::Busy, ""),
        DeviceKind::Io | DeviceKind::Gone | DeviceKind::Invalid => (ErrorKind::Io, ""),
    };
    Error::new(kind, format!("{doing}: {error}{advice}"))
}

/// The store cannot be read for what it holds.
pub(crate) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Damaged, message)
}
