//! Sockets that the service manager opened for the server (`LISTEN_FDS`).

use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, getsockname, sockopt};

use crate::{HostError, HostErrorKind, Listener};

/// The first file descriptor passed.
const FIRST: RawFd = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The listening sockets that the service manager passed to this process, in its order; empty if it
/// passed none. Only the first call returns them.
///
/// Call it early, before other code may have opened files.
pub fn inherited_listeners() -> Result<Vec<Listener>, HostError> {
    let variable = |name| std::env::var(name).ok();
    let count = passed(variable("LISTEN_PID").as_deref(), variable("LISTEN_FDS").as_deref())?;
    if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(take).collect()
}

/// The number of sockets passed to this process, by the environment's variables.
fn passed(pid: Option<&str>, count: Option<&str>) -> Result<RawFd, HostError> {
    // The variables are for another process, and were inherited through a fork.
    if pid.and_then(|pid| pid.parse().ok()) != Some(std::process::id()) {
        return Ok(0);
    }
    let count = count.unwrap_or("0");
    count.parse().ok().filter(|count| (0..1024).contains(count)).ok_or_else(|| {
        HostError::new(
            HostErrorKind::Invalid,
            format!("LISTEN_FDS is {count:?}, which is no number of sockets"),
        )
    })
}

fn take(number: RawFd) -> Result<Listener, HostError> {
    let failed = || HostError::of(format!("taking over socket {number} of the service manager"));
    // SAFETY: borrowed for one call only, which fails with EBADF if there is no such descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    // Proves that the descriptor is open, and keeps it from programs that this process starts.
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(|error| failed()(error.into()))?;
    // SAFETY: the descriptor is open, and by the protocol this process owns it: the variables name
    // the descriptor and this process's id. `TAKEN` ensures that it is taken once.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let listens = sockopt::socket_acceptconn(&socket).map_err(|error| failed()(error.into()))?;
    if !listens {
        return Err(HostError::new(
            HostErrorKind::Invalid,
            format!("socket {number} of the service manager does not listen (set Accept=no)"),
        ));
    }
    let address = getsockname(&socket).map_err(|error| failed()(error.into()))?;
    match address.address_family() {
        AddressFamily::UNIX => Listener::adopt_unix(UnixListener::from(socket)),
        AddressFamily::INET | AddressFamily::INET6 => Listener::from_tcp(TcpListener::from(socket)),
        family => Err(HostError::new(
            HostErrorKind::Invalid,
            format!("socket {number} of the service manager is of family {family:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn only_sockets_meant_for_this_process_are_counted() {
        let me = std::process::id().to_string();
        assert_eq!(passed(None, Some("2")).unwrap(), 0);
        assert_eq!(passed(Some("1"), Some("2")).unwrap(), 0);
        assert_eq!(passed(Some(&me), None).unwrap(), 0);
        assert_eq!(passed(Some(&me), Some("2")).unwrap(), 2);
        for odd in ["x", "-1", "5000", ""] {
            assert!(passed(Some(&me), Some(odd)).unwrap_err().context.contains(odd));
        }
    }

    #[test]
    fn sockets_are_taken_over_if_they_listen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unix = UnixListener::bind(&path).unwrap().into_raw_fd();
        assert_eq!(take(unix).unwrap().address(), format!("unix:{}", path.display()));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap().into_raw_fd();
        assert!(take(tcp).unwrap().address().starts_with("tcp:127.0.0.1:"));
        let deaf = std::os::unix::net::UnixStream::pair().unwrap().0.into_raw_fd();
        assert!(take(deaf).unwrap_err().context.contains("does not listen"));
        assert!(take(100_000).is_err(), "there is no such descriptor");
    }
}
