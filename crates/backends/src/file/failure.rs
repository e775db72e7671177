//! Translates the system's errors to those of the contract.

use std::io;
use std::sync::Arc;

use mjolnir_device::{DeviceError, ErrorKind};
use mjolnir_units::ByteSize;
use rustix::io::Errno;

/// The attempted operation, for an error's message.
#[derive(Clone)]
pub(crate) struct Failure {
    pub what: &'static str,
    pub name: Arc<str>,
    /// In bytes from the start of the file.
    pub offset: Option<u64>,
}

impl Failure {
    /// The error of a write.
    pub fn of_write(&self, error: &io::Error) -> DeviceError {
        let kind = match errno(error) {
            Some(Errno::NOSPC | Errno::DQUOT) => ErrorKind::NoSpace,
            Some(Errno::FBIG) => ErrorKind::Invalid,
            Some(errno) if is_gone(errno) => ErrorKind::Gone,
            _ => ErrorKind::Io,
        };
        let advice = match kind {
            ErrorKind::NoSpace => "; free some space on the file system that holds it",
            ErrorKind::Invalid => "; the file system or a resource limit allows no larger file",
            _ => "",
        };
        DeviceError::new(kind, format!("{}: {error}{advice}", self.head()))
    }

    /// The error of a read.
    pub fn of_read(&self, error: &io::Error) -> DeviceError {
        // The errors of drives and file systems for single lost blocks.
        let lost = matches!(errno(error), Some(Errno::NODATA | Errno::ILSEQ | Errno::UCLEAN));
        let kind = match errno(error) {
            _ if lost => ErrorKind::Unreadable,
            Some(errno) if is_gone(errno) => ErrorKind::Gone,
            _ => ErrorKind::Io,
        };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return DeviceError::new(kind, format!("{}: the file ends there", self.head()));
        }
        DeviceError::new(kind, format!("{}: {error}", self.head()))
    }

    fn head(&self) -> String {
        match self.offset {
            Some(offset) => format!("{} {} at byte {offset}", self.what, self.name),
            None => format!("{} {}", self.what, self.name),
        }
    }
}

/// The errors of a device that is not there.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::SHUTDOWN | Errno::NOTCONN)
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// A size for messages: exact, and readable.
pub(super) fn size(bytes: u64) -> String {
    format!("{bytes} bytes ({})", ByteSize(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_get_a_kind_and_the_place() {
        let failure = Failure { what: "writing", name: "x.mj".into(), offset: Some(4096) };
        let of = |errno: Errno| failure.of_write(&errno.into());
        assert_eq!(of(Errno::NOSPC).kind, ErrorKind::NoSpace);
        assert_eq!(of(Errno::DQUOT).kind, ErrorKind::NoSpace);
        assert_eq!(of(Errno::IO).kind, ErrorKind::Io);
        assert_eq!(of(Errno::NODEV).kind, ErrorKind::Gone);
        assert_eq!(failure.of_read(&Errno::NXIO.into()).kind, ErrorKind::Gone);
        assert!(of(Errno::IO).context.starts_with("writing x.mj at byte 4096: "));
        assert_eq!(failure.of_read(&Errno::NODATA.into()).kind, ErrorKind::Unreadable);
        assert_eq!(failure.of_read(&Errno::IO.into()).kind, ErrorKind::Io);
        let end = failure.of_read(&io::ErrorKind::UnexpectedEof.into());
        assert!(end.context.contains("ends there"), "{end}");
    }
}
