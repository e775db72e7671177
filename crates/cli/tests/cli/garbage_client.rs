//! Clients that speak garbage, stall or vanish, on the NBD socket and on the control socket, are
//! disconnected or ignored; the others notice nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use crate::support::{Folder, PATIENCE, nbd, pattern};

fn connect(folder: &Folder, name: &str) -> UnixStream {
    let stream = UnixStream::connect(folder.path(name)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn garbage_on_the_nbd_socket_disturbs_nobody() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 1 << 20)).unwrap();
    let silent = connect(&folder, "n.sock");
    for garbage in [pattern(2, 100_000), vec![0; 1 << 20], b"GET / HTTP/1.0\r\n\r\n".to_vec()] {
        let mut stream = connect(&folder, "n.sock");
        // The server may hang up in the middle of it.
        let _ = stream.write_all(&garbage);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.starts_with(b"NBDMAGICIHAVEOPT"), "it greets, and hangs up");
    }
    server.wait_for("was disconnected");
    let mut liar = server.client("v");
    liar.request(0, 1, 0, 1 << 20, b"only a little of it");
    drop(liar);
    assert!(client.read(0, 1 << 20).unwrap() == pattern(1, 1 << 20));
    assert!(nbd::Client::try_connect(&folder.path("n.sock"), "nosuch").is_err());
    drop(silent);
    server.stop();
}

#[test]
fn garbage_on_the_control_socket_is_answered_or_hung_up_on() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let stalled = connect(&folder, "s.mj.ctl");
    let mut stream = connect(&folder, "s.mj.ctl");
    for line in ["what?\n", "{\"stats\":{\"x\":1}}\n", "{\"explode\":{}}\n", "\n", "[1,2]\n"] {
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(answer.ends_with('\n'), "{answer}");
        let known = line.contains("stats");
        assert!(known || answer.contains("\"refused\""), "{line:?}: {answer}");
    }
    let mut endless = connect(&folder, "s.mj.ctl");
    let _ = endless.write_all(&vec![b'x'; 4 << 20]);
    let mut said = Vec::new();
    let _ = endless.read_to_end(&mut said);
    assert!(said.is_empty(), "an endless line is hung up on");
    assert!(folder.ok("volume list s.mj").contains('v'));
    drop(stalled);
    server.stop();
}

#[test]
fn a_payload_that_does_not_come_whole_writes_nothing() {
    let folder = Folder::with_store();
    let server = folder.serve("--control-time 1");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 8192)).unwrap();
    let request = |length: u64| {
        let ops = format!(r#"{{"trim":"v:4K+4K"}},{{"write":{{"from":{length},"to":"v:0"}}}}"#);
        let mut stream = connect(&folder, "s.mj.ctl");
        stream.write_all(format!("{{\"ranges\":{{\"ops\":[{ops}]}}}}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).unwrap();
        (stream, answer)
    };
    for length in [64 << 20, u64::MAX] {
        let (_, answer) = request(length + 4096 * u64::from(length < 1 << 60));
        assert!(answer.contains("refused") && answer.contains("67108864"), "{answer}");
    }
    let (mut vanished, answer) = request(8192);
    assert_eq!(answer, "{\"send\":{}}\n");
    vanished.write_all(&[7; 5000]).unwrap();
    drop(vanished);
    let (mut stalled, answer) = request(8192);
    assert_eq!(answer, "{\"send\":{}}\n");
    stalled.write_all(&[7; 5000]).unwrap();
    // One payload at a time: the next one is asked for once this one is given up.
    let (next, answer) = request(8192);
    assert_eq!(answer, "{\"send\":{}}\n");
    let mut said = Vec::new();
    let _ = stalled.read_to_end(&mut said);
    assert!(said.is_empty(), "it is hung up on");
    drop(next);
    let (mut odd, _) = request(4095);
    odd.write_all(&[7; 4095]).unwrap();
    let mut answer = [0; 4096];
    let count = odd.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"{\"refused\""));
    assert_eq!(client.read(0, 8192).unwrap(), pattern(1, 8192));
    server.stop();
}
