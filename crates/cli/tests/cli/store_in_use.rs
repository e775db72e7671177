//! Only one process has a store open: others say who has it, and change nothing.

use rustix::fs::{FlockOperation, flock};

use crate::real_support::tools;
use crate::support::Folder;

#[test]
fn a_served_store_is_neither_served_again_nor_formatted() {
    let folder = Folder::with_store();
    let server = folder.serve("");
    folder.refused("serve s.mj --nbd unix:other.sock", &["s.mj", "served already", "s.mj.ctl"]);
    for words in ["format s.mj --size 64M", "format s.mj --size 64M --force"] {
        folder.refused(words, &["s.mj", "being served", "stop its server"]);
    }
    assert!(folder.ok("volume list s.mj").contains('v'));
    server.stop();
    assert!(folder.ok("volume list s.mj").contains('v'));
}

#[test]
fn a_store_that_another_program_holds_says_that_no_server_answers() {
    let folder = Folder::with_store();
    let file = std::fs::File::open(folder.path("s.mj")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    for words in ["volume list s.mj", "volume create s.mj w --size 1M", "serve s.mj"] {
        folder.refused(words, &["s.mj", "in use", "no control socket answers", "s.mj.ctl"]);
    }
    folder.refused("format s.mj --size 64M --force", &["s.mj", "in use"]);
    drop(file);
    let volumes = folder.ok("volume list s.mj");
    assert!(volumes.contains('v') && !volumes.contains('w'), "{volumes}");
}

#[test]
fn commands_at_the_same_time_wait_for_each_other() {
    let folder = Folder::with_store();
    let mut running = Vec::new();
    for number in 0..4 {
        let words = format!("volume create s.mj w{number} --size 1M");
        running.push(folder.command(&words).spawn().unwrap());
    }
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(folder.ok("volume list s.mj").lines().count(), 6);
}

#[test]
fn a_loop_device_over_a_served_file_is_refused_and_so_is_the_reverse() {
    let name = "a_loop_device_over_a_served_file_is_refused_and_so_is_the_reverse";
    if !tools::present_with_mounts(name, &["losetup"]) {
        return;
    }
    let folder = Folder::with_store();
    let disk = LoopDevice::over(&folder.path("s.mj"));
    let server = folder.serve("");
    for words in ["volume list DISK", "volume create DISK w --size 1M", "serve DISK", "check DISK"]
    {
        let words = words.replace("DISK", &disk.0);
        folder.refused(&words, &[&disk.0, "loop device over", "s.mj, which that one has open"]);
    }
    folder.refused(&format!("format {} --force", disk.0), &["in use by another process"]);
    server.stop();
    let server = folder.start(folder.command(&format!("serve {} --nbd unix:n.sock", disk.0)));
    for words in ["volume list s.mj", "format s.mj --size 64M --force"] {
        folder.refused(words, &["s.mj", &format!("by way of {}, a loop device over it", disk.0)]);
    }
    server.client("v").leave();
    server.stop();
    assert!(folder.ok("volume list s.mj").contains('v'));
}

struct LoopDevice(String);

impl LoopDevice {
    fn over(file: &std::path::Path) -> Self {
        let file = file.to_str().unwrap();
        LoopDevice(tools::ok("losetup", &["--find", "--show", file]).trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        tools::ok("losetup", &["--detach", &self.0]);
    }
}
