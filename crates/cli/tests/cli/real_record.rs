//! Real clients are recorded: what `nbdsh`, `fio` and `qemu-io` say they asked is what is in the
//! recording, request by request.

use std::fs::File;

use mjolnir_workload::trace::{ReadOptions, TraceReader};
use mjolnir_workload::{Op, Request};

use crate::real_support::store::TestStore;
use crate::real_support::tools;

fn read(store: &TestStore, name: &str) -> Vec<Request> {
    let file = File::open(store.path(name)).unwrap();
    let mut reader = TraceReader::open(file, name, &ReadOptions::default()).unwrap();
    let mut requests: Vec<Request> = Vec::new();
    while let Some(request) = reader.next_request().unwrap() {
        assert!(request.latency.is_some(), "all have ended: {request:?}");
        requests.push(request);
    }
    assert_eq!((reader.report().times_raised, &reader.report().notes), (0, &Vec::new()));
    requests
}

/// Run by `nbdsh`, with `v` set to the address: writes down what it asks.
const SCRIPT: &str = r#"
import random
random.seed(3)
h = nbd.NBD()
h.connect_uri(v)
with open("asked", "w") as file:
    def asked(op, at=0, length=0):
        print(op, at, length, file=file)
    for step in range(400):
        length = random.choice([512, 4096, 5000, 65536, 300000])
        at = random.randrange((16 << 20) - length)
        deed = random.randrange(6)
        if deed == 0:
            h.pread(length, at)
            asked("read", at, length)
        elif deed == 1:
            h.pwrite(bytes(length), at)
            asked("write", at, length)
        elif deed == 2:
            h.pwrite(bytes(length), at, nbd.CMD_FLAG_FUA)
            # A flush right behind it says that it was to be durable at once.
            asked("write", at, length)
            asked("flush")
        elif deed == 3:
            h.trim(length, at)
            asked("trim", at, length)
        elif deed == 4:
            h.zero(length, at)
            asked("write-zeroes", at, length)
        else:
            h.flush()
            asked("flush")
h.shutdown()
"#;

#[test]
fn what_nbdsh_asked_is_recorded() {
    if !tools::present("what_nbdsh_asked_is_recorded", &["nbdsh"]) {
        return;
    }
    let store = TestStore::new("64M", "16M");
    let server = store.serve_with("--record r.mjtrace");
    let uri = format!("v = {:?}", store.uri("v"));
    let mut command = tools::command("nbdsh");
    tools::succeed(command.args(["-c", &uri, "-c", SCRIPT]).current_dir(store.folder()));
    server.stop();
    let line =
        |request: &Request| format!("{} {} {}", request.op.name(), request.offset, request.length);
    let recorded: Vec<String> = read(&store, "r.mjtrace").iter().map(line).collect();
    let asked = std::fs::read_to_string(store.path("asked")).unwrap();
    assert_eq!(recorded, asked.lines().collect::<Vec<_>>());
}

#[test]
fn what_fio_asked_is_recorded() {
    let name = "what_fio_asked_is_recorded";
    let engines = || tools::run(tools::command("fio").arg("--enghelp")).out;
    if !tools::present(name, &["fio"])
        || !(engines().lines().any(|line| line.trim() == "nbd")
            || tools::skip(name, "fio's nbd engine"))
    {
        return;
    }
    let store = TestStore::new("128M", "32M");
    let server = store.serve_with("--record r.mjtrace");
    let mut command = tools::command("fio");
    command.args(["--name=v", "--ioengine=nbd", "--iodepth=32", "--size=32M", "--rw=randrw"]);
    command.args(["--bsrange=4k-64k", "--fsync=100", "--randseed=4", "--write_iolog=fio.log"]);
    command.arg(format!("--uri={}", store.uri("v")));
    tools::succeed(command.current_dir(store.folder()));
    server.stop();
    let recorded = read(&store, "r.mjtrace");
    assert!(recorded.len() > 1000);
    // fio's own log has all that it asked, if not in the order in which it was sent.
    let log = std::fs::read_to_string(store.path("fio.log")).unwrap();
    let mut asked: Vec<(Op, u64, u64)> = Vec::new();
    for line in log.lines() {
        let mut words = line
            .split_whitespace()
            .skip_while(|word| !["read", "write", "sync", "datasync"].contains(word));
        let op = match words.next() {
            Some("read") => Op::Read,
            Some("write") => Op::Write,
            Some(_) => Op::Flush,
            None => continue,
        };
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (offset, length) = (number(), number());
        asked.push(if op == Op::Flush { (op, 0, 0) } else { (op, offset, length) });
    }
    let mut recorded: Vec<(Op, u64, u64)> =
        recorded.iter().map(|request| (request.op, request.offset, request.length)).collect();
    recorded.sort();
    asked.sort();
    assert!(recorded == asked, "{} recorded, {} asked", recorded.len(), asked.len());
}

#[test]
fn what_qemu_io_asked_is_recorded() {
    if !tools::present("what_qemu_io_asked_is_recorded", &["qemu-io"]) {
        return;
    }
    let store = TestStore::new("64M", "16M");
    let server = store.serve_with("--record r.mjtrace");
    let mut command = tools::command("qemu-io");
    command.args(["-f", "raw", "-d", "unmap", "-t", "writeback"]);
    for asked in ["write 4096 65536", "read 8192 512", "write -z 1M 1M", "discard 4M 2M"] {
        command.args(["-c", asked]);
    }
    command.args(["-c", "write -f 64k 4k", "-c", "flush", "-c", "read 0 3M"]);
    tools::succeed(command.arg(store.uri("v")));
    server.stop();
    let recorded: Vec<(Op, u64, u64)> = read(&store, "r.mjtrace")
        .iter()
        .map(|request| (request.op, request.offset, request.length))
        .collect();
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    let expected = [
        (Op::Write, 4 * K, 64 * K),
        (Op::Read, 8 * K, 512),
        (Op::WriteZeroes, M, M),
        (Op::Trim, 4 * M, 2 * M),
        (Op::Write, 64 * K, 4 * K),
        (Op::Flush, 0, 0),
        (Op::Flush, 0, 0),
        (Op::Read, 0, 3 * M),
    ];
    // qemu probes the image when it opens it, and flushes when it closes it.
    let begin = recorded.iter().position(|request| *request == expected[0]).unwrap();
    let (probes, asked) = recorded.split_at(begin);
    assert!(probes.iter().all(|(op, ..)| *op == Op::Read), "{probes:?}");
    assert_eq!(asked[..expected.len()], expected);
    assert!(asked[expected.len()..].iter().all(|(op, ..)| *op == Op::Flush), "{asked:?}");
}
