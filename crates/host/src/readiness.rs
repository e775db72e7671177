//! Reports readiness to the service manager (the `sd_notify` protocol).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::HostError;

/// A state that the service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The server serves clients from now on.
    Ready,
    /// The server shuts down.
    Stopping,
}

/// Tells the service manager that started this program, if one did (`NOTIFY_SOCKET` is set).
/// Returns whether there is one.
pub fn tell_service_manager(readiness: Readiness) -> Result<bool, HostError> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) if !socket.is_empty() => tell(&socket, readiness).map(|()| true),
        _ => Ok(false),
    }
}

fn tell(socket: &OsStr, readiness: Readiness) -> Result<(), HostError> {
    let failed = || HostError::of(format!("telling the service manager at {socket:?}"));
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(socket),
    };
    let message: &[u8] = match readiness {
        Readiness::Ready => b"READY=1\n",
        Readiness::Stopping => b"STOPPING=1\n",
    };
    let sender = UnixDatagram::unbound().map_err(failed())?;
    let sent = address.and_then(|address| sender.send_to_addr(message, &address));
    sent.map_err(failed())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_at_a_path_and_one_at_an_abstract_name_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("mjolnir-test-{}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&hidden).unwrap(), format!("@{name}").into()),
        ] {
            for (readiness, expected) in
                [(Readiness::Ready, "READY=1\n"), (Readiness::Stopping, "STOPPING=1\n")]
            {
                tell(&socket, readiness).unwrap();
                let mut buffer = [0; 64];
                let length = manager.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], expected.as_bytes());
            }
        }
    }

    #[test]
    fn a_manager_that_is_gone_is_named() {
        let error = tell(OsStr::new("/nowhere/at/all"), Readiness::Ready).unwrap_err();
        assert!(error.context.contains("/nowhere/at/all"), "{error}");
    }
}
