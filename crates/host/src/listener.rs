//! Listening sockets for clients.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_io::Async;
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::unix_path::{bind, connect};
use crate::{HostError, HostErrorKind, Stream};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Tries to lock a folder that another program has locked, and the pause between tries. The other
/// program usually looks for a stale socket, which takes no time.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    /// The socket file that this listener made. It is removed first of all fields: another program
    /// that finds no listener would put a new file there.
    _made: Option<SocketFile>,
    socket: Socket,
    address: String,
}

#[derive(Debug)]
enum Socket {
    Unix(Async<UnixListener>),
    Tcp(Async<TcpListener>),
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: the path may later lead to another program's file.
    identity: (u64, u64),
}

impl Listener {
    /// Listens on a new socket file with `permissions` (such as `0o600`). Replaces an existing
    /// socket file on which no program answers. Dropping the listener removes the file. The path
    /// may have any length: see [`connect_unix`](crate::connect_unix).
    ///
    /// # Errors
    ///
    /// [`Busy`](HostErrorKind::Busy) if a program answers there;
    /// [`Invalid`](HostErrorKind::Invalid) if the path leads to another file than a socket;
    /// [`Unwritable`](HostErrorKind::Unwritable) if no file can be made at the path; else
    /// [`Io`](HostErrorKind::Io).
    pub fn unix(path: &Path, permissions: u32) -> Result<Self, HostError> {
        let name = path.display();
        let failed = || {
            |error: io::Error| {
                let unwritable =
                    [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem]
                        .contains(&error.kind());
                let error = HostError::of(format!("listening on {name}"))(error);
                let kind = if unwritable { HostErrorKind::Unwritable } else { error.kind };
                HostError { kind, ..error }
            }
        };
        // One program at a time looks for a stale socket and replaces it. The lock is on the
        // folder, so that no lock file stays behind.
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = File::open(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => HostError::new(
                HostErrorKind::Io,
                format!("listening on {name}: there is no folder {}; make it", folder.display()),
            ),
            _ => failed()(error),
        })?;
        lock(&folder).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => HostError::new(
                HostErrorKind::Busy,
                format!(
                    "listening on {name}: another program keeps its folder locked; end that program, \
                     or listen in another folder"
                ),
            ),
            _ => failed()(error),
        })?;
        remove_stale(path)?;
        let open = || -> io::Result<UnixListener> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            // Set before binding, so that the file never has more permissions than these.
            rustix::fs::fchmod(&socket, Mode::from_raw_mode(permissions))?;
            bind(&socket, path, &folder)?;
            fs::set_permissions(path, fs::Permissions::from_mode(permissions))?;
            rustix::net::listen(&socket, BACKLOG)?;
            Ok(socket.into())
        };
        let socket = open().map_err(failed())?;
        let meta = path.symlink_metadata().map_err(failed())?;
        let made = SocketFile { path: path.into(), identity: (meta.dev(), meta.ino()) };
        Self::from_unix(socket, path.display().to_string(), Some(made))
    }

    /// Listens on a TCP address. The caller decides whether an address that is not
    /// [loopback](is_loopback) may be used.
    pub fn tcp(address: SocketAddr) -> Result<Self, HostError> {
        let failed = || HostError::of(format!("listening on {address}"));
        let socket = TcpListener::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => HostError::new(
                HostErrorKind::Busy,
                format!("another program listens on {address}; stop it, or choose another port"),
            ),
            _ => failed()(error),
        })?;
        Self::from_tcp(socket)
    }

    fn from_unix(
        socket: UnixListener,
        path: String,
        made: Option<SocketFile>,
    ) -> Result<Self, HostError> {
        let address = format!("unix:{path}");
        let failed = HostError::of(format!("listening on {path}"));
        let socket = Socket::Unix(Async::new(socket).map_err(failed)?);
        Ok(Listener { socket, address, _made: made })
    }

    /// Takes over a unix socket that listens already. Does not remove its file.
    pub(crate) fn adopt_unix(socket: UnixListener) -> Result<Self, HostError> {
        let failed = HostError::of("listening on a unix socket".into());
        let address = socket.local_addr().map_err(failed)?;
        let path = address.as_pathname().map(|path| path.display().to_string());
        Self::from_unix(socket, path.unwrap_or_else(|| "(unnamed)".into()), None)
    }

    pub(crate) fn from_tcp(socket: TcpListener) -> Result<Self, HostError> {
        let failed = || HostError::of("listening on a TCP socket".into());
        let address = format!("tcp:{}", socket.local_addr().map_err(failed())?);
        let socket = Socket::Tcp(Async::new(socket).map_err(failed())?);
        Ok(Listener { socket, address, _made: None })
    }

    /// Waits for a client. Returns the connection, and the client's name for messages.
    pub async fn accept(&self) -> Result<(Stream, String), HostError> {
        let failed = || HostError::of(format!("accepting on {}", self.address));
        match &self.socket {
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept().await.map_err(failed())?;
                Ok((Stream::unix(stream), self.address.clone()))
            }
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await.map_err(failed())?;
                Ok((Stream::tcp(stream).map_err(failed())?, format!("tcp:{peer}")))
            }
        }
    }

    /// The listener's address: `unix:PATH` or `tcp:HOST:PORT` (with the chosen port, if 0 was
    /// requested).
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The TCP address; `None` for a unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(socket) => socket.get_ref().local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = self.path.symlink_metadata().map(|meta| (meta.dev(), meta.ino()));
        if there.is_ok_and(|there| there == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks a folder; [`WouldBlock`](io::ErrorKind::WouldBlock) if another program keeps its lock.
fn lock(folder: &File) -> io::Result<()> {
    for _ in 1..LOCK_TRIES {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            locked => return Ok(locked?),
        }
    }
    Ok(rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive)?)
}

/// Removes a socket on which no program answers.
fn remove_stale(path: &Path) -> Result<(), HostError> {
    let name = path.display();
    let failed = || HostError::of(format!("looking at {name}"));
    let meta = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(failed())?,
    };
    if !meta.file_type().is_socket() {
        return Err(HostError::new(
            HostErrorKind::Invalid,
            format!("{name} exists and is not a socket; choose another path, or remove it"),
        ));
    }
    match knock(path) {
        // The connection would wait: the program has more clients than it can take at once.
        Ok(()) | Err(Errno::AGAIN) => Err(HostError::new(
            HostErrorKind::Busy,
            format!("another program listens on {name}; stop it, or choose another path"),
        )),
        // The socket belongs to another user, and may be in use.
        Err(Errno::ACCESS) => Err(HostError::new(
            HostErrorKind::Busy,
            format!(
                "the socket {name} is another user's; choose another path, or remove it if no program listens on it"
            ),
        )),
        Err(Errno::CONNREFUSED) => match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed()),
        },
        // Its program has just removed it.
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed()(error.into())),
    }
}

/// Tests, without waiting, whether a program answers.
fn knock(path: &Path) -> Result<(), Errno> {
    connect(path, SocketFlags::NONBLOCK).map(|_| ())
}

/// Whether only programs of this machine can connect to the address.
pub fn is_loopback(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests;
