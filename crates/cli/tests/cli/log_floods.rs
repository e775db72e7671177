//! Whatever clients do, and however often, the server writes few lines about it, and tells how many it left
//! out; nothing that a client sends makes a line of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{Folder, PATIENCE, Server};

/// Says that to the server, and waits for its end.
fn say(mut stream: impl Read + Write, said: &[u8]) {
    let _ = stream.write_all(said);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// An option that chooses an export by its name alone, which has no reply.
fn export_name(name: &[u8]) -> Vec<u8> {
    let length = (name.len() as u32).to_be_bytes();
    [&[0, 0, 0, 3], &b"IHAVEOPT"[..], &[0, 0, 0, 1], &length, name].concat()
}

fn lines(server: &Server<'_>) -> usize {
    server.log().lines().filter(|line| line.contains("client")).count()
}

#[test]
fn a_flood_of_bad_clients_is_a_few_lines_and_a_count() {
    let folder = Folder::with_store();
    let server = folder.serve("--nbd tcp:127.0.0.1:0");
    let port = server.ready.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap();
    let port: u16 = port.parse().unwrap();
    let unix = || UnixStream::connect(folder.path("n.sock")).unwrap();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        say(unix(), &[0xFF; 64]);
        say(unix(), &export_name(b"nosuch\nmjolnir: error: all is lost"));
        say(TcpStream::connect(("127.0.0.1", port)).unwrap(), b"GET / HTTP/1.0\r\n\r\n");
        count += 3;
    }
    assert!(count > 500, "{count} clients are no flood");
    // Three kinds, by five lines each, and one each ten seconds.
    let told = lines(&server);
    assert!(told <= 18, "{told} lines of {count} clients: {}", server.log());
    server.wait_for("were left out");
    assert!(begun.elapsed() < PATIENCE);
    let log = server.log();
    assert!(log.lines().all(|line| line.starts_with("mjolnir: ")), "{log}");
    assert!(!log.contains("\nmjolnir: error: all is lost"), "{log}");
    assert!(log.contains("nosuch") && log.contains("tcp:127.0.0.1"), "each is heard of: {log}");
    server.client("v").read(0, 4096).unwrap();
    server.stop();
}

#[test]
fn a_long_name_makes_a_short_line_and_the_end_tells_the_rest() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    for _ in 0..40 {
        let stream = UnixStream::connect(folder.path("n.sock")).unwrap();
        say(stream, &export_name(&[b'x'; 4096]));
    }
    let log = folder.path("server.log");
    server.stop();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.lines().all(|line| line.len() < 600), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("client")).count(), 6, "{log}");
    assert!(
        log.contains(
            "35 more lines about clients that could not have what they asked for were left out"
        ),
        "{log}"
    );
}

/// Those that are turned away are told so; the log does not hear of each.
#[test]
fn a_flood_of_clients_that_are_too_many_is_a_few_lines() {
    let folder = Folder::with_store();
    let server = folder.serve("--clients-max 1");
    let mut first = server.client("v");
    for _ in 0..500 {
        drop(UnixStream::connect(folder.path("n.sock")).unwrap());
    }
    server.wait_for("turned away a client of unix:n.sock: there are 1 already");
    first.read(0, 4096).unwrap();
    first.leave();
    server.stop();
    let log = std::fs::read_to_string(folder.path("server.log")).unwrap();
    assert!(log.lines().filter(|line| line.contains("client")).count() <= 7, "{log}");
}
