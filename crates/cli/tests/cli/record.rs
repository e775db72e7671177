//! `serve --record` and `record start|stop` write down what clients ask for, in order, and nothing
//! else; a recording that cannot go on ends whole, and serving goes on.

use std::fs::File;
use std::process::Command;

use mjolnir_workload::trace::{ReadOptions, TraceReader};
use mjolnir_workload::{Op, Request};

use crate::real_support::tools;
use crate::support::{Folder, nbd, pattern, wait_until};

/// What is in a recording.
struct Read {
    requests: Vec<(String, Op, u64, u64)>,
    whole: bool,
}

fn read(folder: &Folder, name: &str) -> Read {
    let file = File::open(folder.path(name)).unwrap();
    let mut reader = TraceReader::open(file, name, &ReadOptions::default()).unwrap();
    let mut requests: Vec<Request> = Vec::new();
    while let Some(request) = reader.next_request().unwrap() {
        requests.push(request);
    }
    assert_eq!(reader.report().times_raised, 0, "requests are in the order of their making");
    let volume = |request: &Request| reader.volumes().name(request.volume).unwrap().to_owned();
    let requests = requests
        .iter()
        .map(|request| (volume(request), request.op, request.offset, request.length))
        .collect();
    Read { requests, whole: !reader.report().notes.iter().any(|note| note.contains("cut")) }
}

fn asked(volume: &str, op: Op, offset: u64, length: u64) -> (String, Op, u64, u64) {
    (volume.to_owned(), op, offset, length)
}

#[test]
fn what_clients_ask_is_recorded_in_order() {
    let folder = Folder::with_store();
    folder.ok("volume create s.mj w --size 1T");
    let server = folder.serve("--record r.mjtrace");
    let (mut v, mut w) = (server.client("v"), server.client("w"));
    v.write(0, 8192, &pattern(1, 4096)).unwrap();
    w.write(nbd::FUA, (1 << 40) - 512, &pattern(2, 512)).unwrap();
    assert!(v.read(8192, 4096).unwrap() == pattern(1, 4096));
    v.flush().unwrap();
    w.flush().unwrap();
    v.trim(0, 1 << 20).unwrap();
    w.request(0, 6, 0, 1 << 30, &[]);
    w.reply().unwrap();
    // What the server refuses by itself never gets to the store.
    assert_eq!(v.write(0, 16 << 20, &[0; 512]), Err(nbd::ENOSPC));
    wait_until("the recording is in the file", || {
        let stats: serde_json::Value =
            serde_json::from_str(&folder.ok("stats s.mj --json")).unwrap();
        let recording = &stats["recording"];
        assert!(recording["file"].as_str().unwrap().ends_with("/r.mjtrace"));
        assert_eq!((&recording["requests"], &recording["active"]), (&8.into(), &true.into()));
        recording["bytes"].as_u64().unwrap() > 64
    });
    assert!(folder.ok("stats s.mj").contains("r.mjtrace: 8 requests"));
    server.stop();
    let read = read(&folder, "r.mjtrace");
    assert!(read.whole);
    let expected = [
        asked("v", Op::Write, 8192, 4096),
        asked("w", Op::Write, (1 << 40) - 512, 512),
        // That write was to be durable at once.
        asked("w", Op::Flush, 0, 0),
        asked("v", Op::Read, 8192, 4096),
        asked("v", Op::Flush, 0, 0),
        asked("w", Op::Flush, 0, 0),
        asked("v", Op::Trim, 0, 1 << 20),
        asked("w", Op::WriteZeroes, 0, 1 << 30),
    ];
    assert_eq!(read.requests, expected);
    let told = folder.ok("trace info r.mjtrace");
    for part in ["mjolnir (", "began", "MEAN LATENCY", "2 volumes: v  w"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

#[test]
fn after_a_crash_all_but_the_last_second_is_there() {
    let folder = Folder::with_store();
    let server = folder.serve("--record r.mjtrace");
    let mut client = server.client("v");
    for block in 0..100 {
        client.write(0, block * 4096, &pattern(block, 4096)).unwrap();
    }
    let file = folder.path("r.mjtrace");
    wait_until("a second has passed", || file.metadata().unwrap().len() > 300);
    server.kill();
    let read = read(&folder, "r.mjtrace");
    assert!(!read.whole, "it is said that the end is missing");
    let written: Vec<_> = (0..100).map(|block| asked("v", Op::Write, block * 4096, 4096)).collect();
    assert_eq!(read.requests, written);
    assert!(folder.ok("trace info r.mjtrace").contains("is cut"));
}

#[test]
fn nothing_but_a_recording_is_replaced_and_that_by_force() {
    let folder = Folder::with_store();
    let store = std::fs::read(folder.path("s.mj")).unwrap();
    std::fs::write(folder.path("a"), "dear diary").unwrap();
    let serve = |words: &str| format!("serve s.mj --nbd unix:n.sock {words}");
    let refused = |words: &str, parts: &[&str]| folder.refused(&serve(words), parts);
    refused("--record a", &["a exists", "--record-force replaces"]);
    refused("--record a --record-force", &["a holds something else"]);
    refused("--record s.mj --record-force", &["s.mj holds something else"]);
    refused("--record . --record-force", &["is no plain file"]);
    refused("--record /dev/full --record-force", &["/dev/full is no plain file"]);
    refused("--record no/r", &["no/r", "No such file"]);
    folder.misused(&serve("--record-force"), &["--record"]);
    assert_eq!(std::fs::read(folder.path("a")).unwrap(), b"dear diary");
    assert!(std::fs::read(folder.path("s.mj")).unwrap() == store);

    folder.serve("--record r").stop();
    refused("--record r", &["r exists"]);
    let server = folder.serve("--record r --record-force");
    server.client("v").write(0, 0, &pattern(1, 4096)).unwrap();
    // Another server may not, either.
    folder.ok("format t.mj --size 64M");
    folder.refused("serve t.mj --record r --record-force", &["another server is recording to"]);
    server.stop();
    assert_eq!(read(&folder, "r").requests, [asked("v", Op::Write, 0, 4096)]);
}

#[test]
fn a_server_is_told_when_to_record() {
    let folder = Folder::with_store();
    folder.refused("record start s.mj r", &["is not being served"]);
    assert!(!folder.path("r").exists());
    let server = folder.serve("");
    let mut client = server.client("v");
    client.write(0, 0, &pattern(1, 4096)).unwrap();
    folder.refused("record stop s.mj", &["nothing is being recorded"]);
    assert!(folder.ok("record start s.mj r").contains("r: 0 requests"));
    client.write(0, 4096, &pattern(2, 4096)).unwrap();
    folder.refused("record start s.mj q", &["is being made", "/r"]);
    assert!(folder.ok("record stop s.mj").contains("r: 1 request, "));
    client.write(0, 8192, &pattern(3, 4096)).unwrap();
    folder.refused("record start s.mj r", &["r exists", "--force"]);
    folder.ok("record start s.mj q");
    client.write(0, 12288, &pattern(4, 4096)).unwrap();
    server.stop();
    for (name, offset) in [("r", 4096), ("q", 12288)] {
        let read = read(&folder, name);
        assert!(read.whole);
        assert_eq!(read.requests, [asked("v", Op::Write, offset, 4096)]);
    }
}

/// Unmounts when dropped.
struct Mounted<'a>(&'a Folder);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path("small")).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let folder = Folder::with_store();
    let small = folder.path("small");
    std::fs::create_dir(&small).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=160k", "tmpfs"]).arg(&small);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        tools::skip("a_full_disk_ends_the_recording_and_nothing_else", "to mount a tmpfs");
        return;
    }
    let mounted = Mounted(&folder);
    let server = folder.serve("--record small/r.mjtrace");
    let mut client = server.client("v");
    let mut written = 0;
    wait_until("the disk is full", || {
        for _ in 0..500 {
            let block = written * 2654435761 % 4096;
            client.write(0, block * 4096, &pattern(block, 4096)).unwrap();
            written += 1;
        }
        server.log().contains("the recording to")
    });
    let stats = folder.ok("stats s.mj");
    let told: Vec<&str> = stats.split_whitespace().collect();
    let told = told.iter().position(|word| word.starts_with("request")).map(|at| told[at - 1]);
    assert!(stats.contains("ENDED: ") && stats.contains("No space left"), "{stats}");
    // The other blocks of the volume, long after.
    let before = written;
    while written < before + 500 {
        client.write(0, written % 4096 * 4096, &pattern(written, 4096)).unwrap();
        written += 1;
    }
    let log = server.log();
    assert_eq!(log.lines().count(), 1, "one warning: {log}");
    assert!(log.contains("No space left") && log.contains("serving goes on"), "{log}");
    drop(client);
    server.stop();
    let read = read(&folder, "small/r.mjtrace");
    assert!(!read.whole && read.requests.len() > 1000, "{} requests", read.requests.len());
    assert_eq!(told, Some(read.requests.len().to_string().as_str()), "{stats}");
    for (index, request) in (0..).zip(&read.requests) {
        let block = index * 2654435761 % 4096;
        assert_eq!(*request, asked("v", Op::Write, block * 4096, 4096));
    }
    // A disk that is full from the start is told before anything is served.
    assert!(std::fs::write(small.join("filler"), vec![1; 1 << 20]).is_err());
    folder.refused("serve s.mj --record small/q.mjtrace", &["small/q.mjtrace", "No space left"]);
    assert!(!folder.path("small/q.mjtrace").exists());
    assert!(folder.ok("check s.mj").contains("no problems"));
    drop(mounted);
}
