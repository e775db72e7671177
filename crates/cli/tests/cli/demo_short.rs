//! The demo, short and on a small store: it verifies everything, says so, and leaves nothing
//! behind; where it cannot run or is interrupted, it says why.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::program;

fn demo(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("demo").arg("--dir").arg(folder.path()).args(arguments).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n--- stderr:\n{err}")
}

fn assert_empty(folder: &tempfile::TempDir) {
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "the demo left {left:?} behind");
}

#[test]
fn a_short_demo_verifies_everything_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--seconds", "3", "--plain", "--size", "128M", "--seed", "7"];
    let output = demo(&folder, &arguments).output().unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("0 wrong: everything verified"), "{text}");
    assert!(text.contains("write amplification"), "{text}");
    // No terminal: plain lines without any escape sequence, one for each second.
    assert!(!text.contains('\x1b'), "{text:?}");
    assert!(text.contains("  1 s: clients wrote") && text.contains("  2 s: clients"), "{text}");
    assert_empty(&folder);
}

#[test]
fn the_summary_is_also_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&folder, &["--seconds", "1", "--size", "128M", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["all_right"], true, "{summary}");
    assert_eq!(summary["blocks_wrong"], 0, "{summary}");
    assert!(summary["stats"]["device_write_bytes"].as_u64() > Some(0), "{summary}");
    assert_empty(&folder);
}

#[test]
fn an_interrupted_demo_cleans_up_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--seconds", "600", "--size", "128M"];
    let mut child =
        demo(&folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its files are made after it listens for signals.
    let patience = Instant::now() + Duration::from_secs(60);
    while std::fs::read_dir(folder.path()).unwrap().next().is_none() {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < patience, "it is not up");
        std::thread::yield_now();
    }
    // One right after the other, as `timeout` signals a program and then its group.
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted; the files are removed"), "{text}");
    assert_empty(&folder);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&folder, &["--size", "1000P"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("bytes free"), "{}", text(&output));
    let output = demo(&folder, &["--size", "1M"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output).contains("at least 128 MiB"), "{}", text(&output));
    assert_empty(&folder);
}
