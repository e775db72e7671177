//! Clients that say nothing, or only a part, are hung up on once their time is over, on the NBD
//! socket and on the control socket; those that are quick, or past it, stay as long as they like.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::nbd::Client;
use crate::support::{Folder, PATIENCE, pattern, program};

/// Sends that, and waits to be hung up on; returns how long that took.
fn hung_up_on(folder: &Folder, socket: &str, said: &[u8]) -> Duration {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(folder.path(socket)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(said).unwrap();
    let mut heard = Vec::new();
    // What the server did not read makes this end a reset.
    if let Err(error) = stream.read_to_end(&mut heard) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{socket} {said:?}");
    }
    begun.elapsed()
}

#[test]
fn negotiations_end_in_time_and_sessions_do_not() {
    let folder = Folder::with_store();
    let server = folder.serve("--negotiation-time 1");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 4096)).unwrap();
    let flags = [0, 0, 0, 3];
    let list = [&flags[..], b"IHAVEOPT", &[0, 0, 0, 3, 0, 0, 0, 0]].concat();
    // Nothing, a part of the flags, a part of an option, and an option with nothing after it.
    for said in [&[][..], &flags[..2], &list[..10], &list] {
        let took = hung_up_on(&folder, "n.sock", said);
        assert!(took >= Duration::from_millis(900), "{said:?} was hung up on after {took:?}");
        assert!(took < Duration::from_secs(25), "the limit is this one, not the default: {took:?}");
    }
    assert_eq!(client.read(0, 4096).unwrap(), pattern(1, 4096), "long past its negotiation");
    client.leave();
    server.stop();
}

#[test]
fn commands_that_do_not_come_are_not_waited_for() {
    let folder = Folder::with_store();
    let server = folder.serve("--control-time 1");
    for said in [&b""[..], b"{\"stats\"", b"{\"stats\":{}}\n"] {
        let took = hung_up_on(&folder, "s.mj.ctl", said);
        assert!(took >= Duration::from_millis(900), "{said:?} was hung up on after {took:?}");
        assert!(took < Duration::from_secs(50), "the limit is this one, not the default: {took:?}");
    }
    assert!(folder.ok("stats s.mj").contains("served"));
    server.stop();
    folder.misused("serve s.mj --control-time 0", &["--control-time"]);
    folder.misused("serve s.mj --negotiation-time soon", &["--negotiation-time"]);
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let folder = Folder::with_store();
    let server = folder.serve("--clients-max 4");
    let mut first = server.client("v");
    first.write(0, 0, &pattern(1, 4096)).unwrap();
    let connect = || UnixStream::connect(folder.path("n.sock")).unwrap();
    let silent: Vec<_> = (0..20).map(|_| connect()).collect();
    // All of these are there at once, and the silent ones make room for them.
    let others = [server.client("v"), server.client("v"), server.client("v")];
    let mut told = silent.into_iter().map(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        heard.len()
    });
    assert!(told.all(|bytes| bytes <= 18), "they hear a greeting and the end");
    // Now all places are taken by clients that have chosen.
    let more = Client::try_connect(&folder.path("n.sock"), "v").map(drop);
    assert_eq!(more, Err(0x8000_0002), "one more is turned away");
    server.wait_for("turned away a client of unix:n.sock: there are 4 already");
    drop(others);
    assert_eq!(first.read(0, 4096).unwrap(), pattern(1, 4096));
    server.stop();
}

#[test]
fn clients_that_use_up_the_file_descriptors_make_room() {
    let folder = Folder::with_store();
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "ulimit -n 64; exec \"$0\" serve s.mj --nbd unix:n.sock"])
        .arg(program())
        .env("MJOLNIR_WARM_LOG", folder.warm_path())
        .current_dir(folder.path(""));
    let server = folder.start(command);
    let silent: Vec<_> =
        (0..70).map(|_| UnixStream::connect(folder.path("n.sock")).unwrap()).collect();
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 4096)).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), pattern(1, 4096));
    drop(silent);
    client.leave();
    server.stop();
}
