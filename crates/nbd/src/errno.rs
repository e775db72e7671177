//! Maps a store's errors to the protocol's numbers.

use mjolnir_store::{Error, ErrorKind};

use crate::protocol::Errno;

/// The protocol's number for an error of the store.
pub(crate) fn errno_of(error: &Error) -> Errno {
    match error.kind {
        ErrorKind::Invalid | ErrorKind::Exists => Errno::Inval,
        ErrorKind::ReadOnly => Errno::Perm,
        ErrorKind::NoSpace => Errno::NoSpc,
        ErrorKind::Damaged | ErrorKind::Io | ErrorKind::Format | ErrorKind::Busy => Errno::Io,
        ErrorKind::Unsupported => Errno::NotSup,
        // The export was deleted, or the store is closing: the client must disconnect.
        ErrorKind::NotFound | ErrorKind::Closed => Errno::Shutdown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_can_act_on_has_its_own_number() {
        for (kind, number) in [
            (ErrorKind::NoSpace, 28),
            (ErrorKind::ReadOnly, 1),
            (ErrorKind::Invalid, 22),
            (ErrorKind::Damaged, 5),
            (ErrorKind::Io, 5),
            (ErrorKind::Closed, 108),
            (ErrorKind::Unsupported, 95),
        ] {
            assert_eq!(errno_of(&Error::new(kind, "x")) as u32, number, "{kind:?}");
        }
    }
}
