//! Unix sockets by paths of any length.
//!
//! An address of a unix socket has room for a path of 107 bytes, which a store deep in a file
//! system exceeds. But an open file has a short name in `/proc/self/fd`: so a client opens the
//! socket file, and a server its folder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// The longest path that other programs can connect to, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The longest wait for a program whose queue of clients is full.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Connects to a unix socket by a path of any length.
///
/// # Errors
///
/// The errors of `connect`: not found, refused if no program listens, permission denied, and so on;
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if the queue of waiting clients stays full for five
/// seconds.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let socket = UnixStream::from(connect(path, SocketFlags::empty())?);
    socket.set_write_timeout(None)?;
    Ok(socket)
}

pub(crate) fn connect(path: &Path, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | flags;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // This limits connecting, too.
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_TIME))?;
    if fits(path) {
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    } else {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(short_name(&file))?)?;
    }
    Ok(socket)
}

/// Binds a socket to a path in a folder; the path must not exist yet.
pub(crate) fn bind(socket: &OwnedFd, path: &Path, folder: &File) -> io::Result<()> {
    if fits(path) {
        return Ok(rustix::net::bind(socket, &SocketAddrUnix::new(path)?)?);
    }
    // Even the last part of the path may be too long, so the socket gets its final name later.
    let first = format!(".mjolnir-{}", std::process::id());
    let address = SocketAddrUnix::new(format!("{}/{first}", short_name(folder)))?;
    // A process of this id that was killed in between may have left one.
    let _ = rustix::fs::unlinkat(folder, &first, AtFlags::empty());
    rustix::net::bind(socket, &address)?;
    let named = rustix::fs::renameat_with(folder, &first, CWD, path, RenameFlags::NOREPLACE);
    if named.is_err() {
        let _ = rustix::fs::unlinkat(folder, &first, AtFlags::empty());
    }
    Ok(named?)
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX
}

fn short_name(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}
