//! Tests that sockets are made, found stale, refused and removed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use futures_lite::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A client on another thread sends a word; it is echoed back by two handles of the stream.
fn echo(listener: &Listener, connect: impl FnOnce() -> Box<dyn ReadWrite> + Send + 'static) {
    let client = std::thread::spawn(move || {
        let mut client = connect();
        client.write_all(b"hail").unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "the server disconnects");
        answer
    });
    async_io::block_on(async {
        let (mut reader, _) = listener.accept().await.unwrap();
        let mut writer = reader.clone();
        let mut word = [0; 4];
        reader.read_exact(&mut word).await.unwrap();
        writer.write_all(&word).await.unwrap();
        writer.flush().await.unwrap();
        reader.disconnect();
    });
    assert_eq!(&client.join().unwrap(), b"hail");
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn clients_of_a_unix_socket_are_served_and_its_file_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    for permissions in [0o600, 0o660, 0o666] {
        let listener = Listener::unix(&path, permissions).unwrap();
        assert_eq!(listener.address(), format!("unix:{}", path.display()));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, permissions);
        let target = path.clone();
        echo(&listener, move || Box::new(UnixStream::connect(target).unwrap()));
        drop(listener);
        assert!(!path.exists());
    }
}

/// It removes its own file, and never that of one which took it for gone.
#[test]
fn a_listener_that_ends_beside_one_that_begins_leaves_it_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let mut listener = Listener::unix(&path, 0o600).unwrap();
    for _ in 0..3_000 {
        let target = path.clone();
        let next = std::thread::spawn(move || {
            loop {
                match Listener::unix(&target, 0o600) {
                    Err(error) if error.kind == HostErrorKind::Busy => {}
                    other => return other,
                }
            }
        });
        drop(listener);
        listener = next.join().unwrap().expect("it waits for the other one");
        UnixStream::connect(&path).expect("its file is there");
    }
}

#[test]
fn clients_of_a_tcp_socket_are_served() {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.tcp_address().unwrap();
    assert_eq!(listener.address(), format!("tcp:{address}"));
    echo(&listener, move || Box::new(TcpStream::connect(address).unwrap()));
    let error = Listener::tcp(address).unwrap_err();
    assert_eq!(error.kind, HostErrorKind::Busy);
}

/// A client whose machine is gone sends nothing any more, and nothing is sent to it.
#[test]
fn the_kernel_asks_tcp_clients_whether_they_are_there() {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.tcp_address().unwrap();
    let client = TcpStream::connect(address).unwrap();
    let _accepted = async_io::block_on(listener.accept()).unwrap();
    // A line of the table: number, local and remote address, state, queues, timer:when, ...
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let hex = |port: u16| format!(":{port:04X}");
    let timer = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, _, _, timer, ..] = fields[..] else { return None };
        let ours = local.ends_with(&hex(address.port()))
            && remote.ends_with(&hex(client.local_addr().unwrap().port()));
        ours.then(|| timer.to_owned())
    });
    let timer = timer.expect("the connection is in the kernel's table");
    assert!(timer.starts_with("02:"), "{timer} is not the keepalive timer");
}

#[test]
fn a_folder_that_another_program_keeps_locked_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::open(folder.path()).unwrap();
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
    let path = folder.path().join("door");
    let error = Listener::unix(&path, 0o600).unwrap_err();
    assert_eq!(error.kind, HostErrorKind::Busy);
    assert!(error.to_string().contains("locked"), "{error}");
    drop(lock);
    Listener::unix(&path, 0o600).unwrap();
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    // The standard library leaves the file behind, as a program does that was killed.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::unix(&path, 0o600).unwrap();
    let error = Listener::unix(&path, 0o600).unwrap_err();
    assert_eq!(error.kind, HostErrorKind::Busy);
    assert!(error.context.contains("another program listens on"), "{error}");
    drop(listener);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, "data").unwrap();
    assert_eq!(Listener::unix(&path, 0o600).unwrap_err().kind, HostErrorKind::Invalid);
    assert_eq!(fs::read(&path).unwrap(), b"data");
}

#[test]
fn paths_may_be_as_long_as_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(200)).join("e".repeat(250));
    fs::create_dir_all(&deep).unwrap();
    // The longest that fits an address, the first that does not, and the longest name of a file.
    let fill = 107 - folder.path().as_os_str().len() - 1;
    for path in [
        folder.path().join("x".repeat(fill)),
        folder.path().join("x".repeat(fill + 1)),
        deep.join("door"),
        deep.join("f".repeat(255)),
    ] {
        let listener = Listener::unix(&path, 0o600).unwrap();
        assert_eq!(listener.address(), format!("unix:{}", path.display()));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let target = path.clone();
        echo(&listener, move || Box::new(crate::connect_unix(&target).unwrap()));
        assert_eq!(Listener::unix(&path, 0o600).unwrap_err().kind, HostErrorKind::Busy);
        drop(listener);
        let gone = crate::connect_unix(&path).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound, "{gone}");
        // Stale ones are replaced, and what is none is left alone.
        std::mem::forget(Listener::unix(&path, 0o600).unwrap()._made.take());
        let stale = crate::connect_unix(&path).unwrap_err();
        assert_eq!(stale.kind(), io::ErrorKind::ConnectionRefused, "{stale}");
        drop(Listener::unix(&path, 0o600).unwrap());
        fs::write(&path, "data").unwrap();
        assert_eq!(Listener::unix(&path, 0o600).unwrap_err().kind, HostErrorKind::Invalid);
        assert_eq!(fs::read(&path).unwrap(), b"data");
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1 + usize::from(path.parent() == Some(folder.path()))
        );
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn another_ones_socket_at_the_path_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door");
    let listener = Listener::unix(&path, 0o600).unwrap();
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
    drop(other);
}

#[test]
fn loopback_is_told_from_the_rest() {
    for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(is_loopback(&local.parse().unwrap()), "{local}");
    }
    for open in ["0.0.0.0:1", "192.168.1.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:8.8.8.8]:1"] {
        assert!(!is_loopback(&open.parse().unwrap()), "{open}");
    }
}
