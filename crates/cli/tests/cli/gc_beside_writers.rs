//! `gc run` beside clients that go on writing ends, and stops when it is interrupted.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Folder, PATIENCE, Server, pattern};

const PIECE: u64 = 16 << 10;
const VOLUME: u64 = 96 << 20;

/// Each with a part of the volume, of which it overwrites and reads pieces until told to stop.
fn work(server: &Server<'_>, stop: &AtomicBool, during: impl FnOnce()) {
    thread::scope(|threads| {
        for part in 0..4 {
            let mut client = server.client("v");
            threads.spawn(move || {
                let pieces = VOLUME / PIECE / 4;
                let mut at = part;
                while !stop.load(Ordering::Relaxed) {
                    at = (at * 1_103 + 12_345) % pieces;
                    let offset = (part * pieces + at) * PIECE;
                    client.write(0, offset, &pattern(at, PIECE as usize)).unwrap();
                    client.read(offset, PIECE as u32).unwrap();
                }
            });
        }
        during();
        stop.store(true, Ordering::Relaxed);
    });
}

fn filled(folder: &Folder) {
    folder.ok("format s.mj --size 1G");
    folder.ok(&format!("volume create s.mj v --size {VOLUME}"));
}

/// Every other piece is stale.
fn fill(server: &Server<'_>) {
    let mut client = server.client("v");
    for step in [PIECE, 2 * PIECE] {
        for offset in (0..VOLUME).step_by(step as usize) {
            client.write(0, offset, &pattern(offset, PIECE as usize)).unwrap();
        }
    }
}

fn number(folder: &Folder, name: &str) -> u64 {
    let stats: Value = serde_json::from_str(&folder.ok("--json stats s.mj")).unwrap();
    stats[name].as_u64().unwrap()
}

#[test]
fn it_ends_while_clients_write() {
    let folder = Folder::empty();
    filled(&folder);
    let server = folder.serve("");
    fill(&server);
    work(&server, &AtomicBool::new(false), || {
        let said = folder.ok("--json gc run s.mj");
        let won: Value = serde_json::from_str(&said).unwrap();
        assert!(won["segments"].as_u64().unwrap() > 0, "{said}");
        assert!(won["moved_bytes"].as_u64().unwrap() <= VOLUME * 11 / 10, "{said}");
    });
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
}

/// Interrupts a collection, which says what it won.
fn interrupt_one(folder: &Folder) {
    let mut command = folder.command("gc run s.mj");
    let collecting = command.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    // Where it has ended by then there is nothing to stop.
    let _ = kill_process(Pid::from_child(&collecting), Signal::INT);
    let said = collecting.wait_with_output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("won") && text.contains("free now"), "{text}");
    let status = if text.starts_with("interrupted: ") { 130 } else { 0 };
    assert_eq!(said.status.code(), Some(status), "{text}");
}

#[test]
fn it_stops_when_it_is_interrupted() {
    let folder = Folder::empty();
    filled(&folder);
    let server = folder.serve("");
    fill(&server);
    work(&server, &AtomicBool::new(false), || {
        interrupt_one(&folder);
        let begun = Instant::now();
        let mut moved = number(&folder, "moved_bytes");
        loop {
            assert!(begun.elapsed() < PATIENCE, "it goes on for whoever has gone");
            thread::sleep(Duration::from_secs(2));
            let now = number(&folder, "moved_bytes");
            if std::mem::replace(&mut moved, now) == now {
                break;
            }
        }
    });
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
}
