//! SIGTERM, SIGINT and SIGHUP end a server in order: exit status 0, sockets gone, and every write that was
//! acknowledged is there, flushed or not.

use std::process::Command;

use rustix::process::Signal;

use crate::support::{Folder, pattern, program};

#[test]
fn each_signal_ends_in_order_and_keeps_what_was_acknowledged() {
    let folder = Folder::with_store();
    for (round, signal) in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().enumerate() {
        // Whoever runs the tests may ignore hangups.
        let mut command = Command::new("env");
        let words = ["serve", "s.mj", "--nbd", "unix:n.sock"];
        command.arg("--default-signal=HUP").arg(program()).args(words);
        let server = folder.start({
            command.env("MJOLNIR_WARM_LOG", folder.warm_path()).current_dir(folder.path(""));
            command
        });
        let mut client = server.client("v");
        let data = pattern(round as u64, 3 << 20);
        client.write(0, 0, &data).unwrap();
        server.signal(signal);
        assert_eq!(server.wait(), Some(0));
        assert!(!folder.path("n.sock").exists());
        assert!(!folder.path("s.mj.ctl").exists());
        let server = folder.serve("");
        assert!(server.client("v").read(0, 3 << 20).unwrap() == data);
        server.stop();
    }
}

/// As `timeout` does, which signals a program and then its group.
#[test]
fn the_same_signal_twice_at_once_ends_in_order() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    server.client("v").write(0, 0, &pattern(2, 8 << 20)).unwrap();
    server.signal(Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(1));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let folder = Folder::with_store();
    let server = folder.serve_after("trap '' HUP");
    server.signal(Signal::HUP);
    server.client("v").write(0, 0, &pattern(1, 4096)).unwrap();
    server.stop();
}

#[test]
fn requests_in_flight_are_finished() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    let mut client = server.client("v");
    let data = pattern(4, 8 << 20);
    client.request(0, 1, 0, 8 << 20, &data);
    client.request(0, 3, 0, 0, &[]);
    server.signal(Signal::TERM);
    // Both were sent before the signal; each is answered, or was not taken any more.
    let acknowledged = std::panic::catch_unwind(move || client.reply()).is_ok();
    assert_eq!(server.wait(), Some(0));
    let server = folder.serve("");
    let found = server.client("v").read(0, 8 << 20).unwrap();
    assert!(!acknowledged || found == data, "what was acknowledged is there");
    server.stop();
}
