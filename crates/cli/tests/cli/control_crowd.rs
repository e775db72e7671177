//! However many connections to the control socket say nothing, commands are heard; where really too many
//! commands are under way, one more is told so.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
};
use rustix::process::Signal;

use crate::support::{Folder, PATIENCE, wait_until};

fn connect(folder: &Folder) -> UnixStream {
    let stream = UnixStream::connect(folder.path("s.mj.ctl")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn line(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn connections_that_say_nothing_keep_no_command_out() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut known = connect(&folder);
    known.write_all(b"{\"stats\":{}}\n").unwrap();
    assert!(line(&known).starts_with("{\"answer\""));
    let mut first = connect(&folder);
    let silent: Vec<UnixStream> = (0..300).map(|_| connect(&folder)).collect();
    for number in 0..3 {
        assert!(folder.ok("volume list s.mj").contains('v'));
        folder.ok(&format!("volume create s.mj w{number} --size 1M"));
    }
    assert_eq!(first.read(&mut [0; 16]).unwrap(), 0, "the one that came first gave way");
    // One that has asked before stays where others have not.
    known.write_all(b"{\"stats\":{}}\n").unwrap();
    assert!(line(&known).starts_with("{\"answer\""), "it is heard still");
    drop(silent);
    server.stop();
}

#[test]
fn one_command_too_many_is_told_so() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let ask = || {
        let mut stream = connect(&folder);
        let ops = r#"{"write":{"from":4096,"to":"v:0"}}"#;
        stream.write_all(format!("{{\"ranges\":{{\"ops\":[{ops}]}}}}\n").as_bytes()).unwrap();
        stream
    };
    // The first one is to send what it announced, and does not; the others wait for it.
    let stalled: Vec<UnixStream> = (0..48).map(|_| ask()).collect();
    assert_eq!(line(&stalled[0]), "{\"send\":{}}\n");
    let silent: Vec<UnixStream> = (0..100).map(|_| connect(&folder)).collect();
    folder.refused("volume list s.mj", &["48 commands already", "try again"]);
    drop((stalled, silent));
    wait_until("those that left are seen off", || folder.run("volume list s.mj").code == Some(0));
    server.stop();
}

#[test]
fn a_server_that_lets_nobody_in_is_said_to_hang() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    server.signal(Signal::STOP);
    let mut waiting = Vec::new();
    let full = loop {
        let flags = SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match connect_to(&socket, &SocketAddrUnix::new(folder.path("s.mj.ctl")).unwrap()) {
            Ok(()) => waiting.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(full, Errno::AGAIN);
    folder.refused("volume list s.mj", &["s.mj.ctl", "let nobody in", "it hangs or was stopped"]);
    server.signal(Signal::CONT);
    assert!(folder.ok("volume list s.mj").contains('v'), "those who wait keep nobody out");
    drop(waiting);
    server.stop();
}
