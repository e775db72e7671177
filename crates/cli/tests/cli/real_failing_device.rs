//! A store on a device that another program makes fail: nbdkit's error filter below nbdfuse and a loop
//! device. fio verifies what it
//! reads meanwhile, and sees no error.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::real_support::mounts::{Fuse, Loop};
use crate::real_support::tools;
use crate::support::{Folder, wait_until};

/// The device: while the file `trigger` is there, requests fail. Dropped from the top down.
struct Failing<'a> {
    _device: Loop,
    _file: Fuse,
    _server: Server,
    folder: &'a Folder,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Failing<'a> {
    fn new(folder: &'a Folder, rate: &str) -> Self {
        let path = |name: &str| folder.path(name).display().to_string();
        let mut nbdkit = tools::lasting("nbdkit");
        nbdkit.args(["-f", "-U", &path("nbd.sock"), "memory", "300M", "--filter=error"]);
        nbdkit.args(["error=EIO", rate, &format!("error-file={}", path("trigger"))]);
        nbdkit.stdin(Stdio::null()).stderr(Stdio::null());
        let server = Server(nbdkit.spawn().unwrap());
        wait_until("nbdkit listens", || folder.path("nbd.sock").exists());
        let uri = format!("nbd+unix:///?socket={}", path("nbd.sock"));
        let file = Fuse::new(&uri, folder.path("device"));
        let device = Loop::new(file.file());
        // Else the page cache would take writes that the device refuses.
        tools::succeed(tools::command("losetup").args(["--direct-io=on", device.device()]));
        std::os::unix::fs::symlink(device.device(), folder.path("s.mj")).unwrap();
        Failing { _device: device, _file: file, _server: server, folder }
    }

    fn fails(&self, fails: bool) {
        let trigger = self.folder.path("trigger");
        match fails {
            true => std::fs::write(trigger, "").unwrap(),
            false => std::fs::remove_file(trigger).unwrap(),
        }
    }
}

fn fio(folder: &Folder, loops: &str) -> std::process::Command {
    let mut command = tools::command("fio");
    command.args(["--name=v", "--ioengine=nbd", "--iodepth=16", "--minimal", "--rw=randwrite"]);
    command.args(["--verify=crc32c", "--verify_fatal=1", "--size=64M", "--bsrange=4k-64k"]);
    command.args(["--fsync=64", "--verify_backlog=512", loops]);
    command.arg(format!("--uri=nbd+unix:///v?socket={}", folder.path("v.sock").display()));
    command
}

fn is_ready(test: &str) -> bool {
    tools::present_with_mounts(test, &["nbdkit", "nbdfuse", "fio", "losetup"])
        && (tools::run(tools::command("fio").arg("--enghelp")).out.contains("nbd")
            || tools::skip(test, "fio's nbd engine"))
}

#[test]
fn single_bad_places_are_no_error_of_any_client() {
    let name = "single_bad_places_are_no_error_of_any_client";
    if !is_ready(name) {
        return;
    }
    let folder = Folder::empty();
    let device = Failing::new(&folder, "error-pwrite-rate=3%");
    folder.ok("format s.mj --segment-size 1M --force");
    folder.ok("volume create s.mj v --size 64M");
    let socket = folder.path("v.sock").display().to_string();
    let server = folder.serve(&format!("--nbd unix:{socket}"));
    device.fails(true);
    tools::succeed(&mut fio(&folder, "--loops=4"));
    device.fails(false);
    let stats = folder.json("stats s.mj");
    assert!(stats["write_errors"].as_u64().unwrap() > 0, "{stats}");
    assert!(stats["failed"].is_null() && stats["checksum_errors"] == 0, "{stats}");
    folder.ok("scrub s.mj --retry-bad");
    assert!(folder.ok("check s.mj").contains("no problems"));
    tools::succeed(&mut fio(&folder, "--loops=1"));
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}

#[test]
fn a_device_that_is_away_for_a_while_is_waited_for() {
    let name = "a_device_that_is_away_for_a_while_is_waited_for";
    if !is_ready(name) {
        return;
    }
    let folder = Folder::empty();
    let device = Failing::new(&folder, "error-rate=100%");
    folder.ok("format s.mj --segment-size 1M --force");
    folder.ok("volume create s.mj v --size 64M");
    let socket = folder.path("v.sock").display().to_string();
    let server = folder.serve(&format!("--nbd unix:{socket}"));
    let mut client = fio(&folder, "--loops=6").stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        device.fails(true);
        std::thread::sleep(Duration::from_secs(2));
        device.fails(false);
    }
    assert!(client.wait().unwrap().success(), "the client saw an error");
    let stats = folder.json("stats s.mj");
    assert!(stats["outages"].as_u64().unwrap() > 0, "{stats}");
    server.stop();
    assert!(folder.ok("check s.mj").contains("no problems"));
    assert!(folder.ok("scrub s.mj").contains("no damage"));
}
