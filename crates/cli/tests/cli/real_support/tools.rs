//! The real clients: whether they are there, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How long a program may run, in seconds, before it counts as stuck.
const PATIENCE_S: &str = "240";
/// Where programs lie that are not on everyone's path. First of all the system's own: a Python
/// from elsewhere does not find the system's libnbd.
const FOLDERS: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// What a program said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Whether all of those programs are there. Says what is missing where it is not, for then the
/// test is skipped; fails instead if the environment has `MJOLNIR_REQUIRE_TOOLS=1`.
#[must_use]
pub fn present(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| find(tool).is_none()).collect();
    missing.is_empty() || skip(test, &missing.join(", "))
}

/// As [`present`], for tests that mount: root, FUSE and loop devices have to be there as well.
#[must_use]
pub fn present_with_mounts(test: &str, tools: &[&str]) -> bool {
    if !present(test, tools) {
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "root");
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if std::fs::OpenOptions::new().read(true).write(true).open(device).is_err() {
            return skip(test, device);
        }
    }
    true
}

/// Says why a test is skipped; fails it if nothing may be missing.
pub fn skip(test: &str, need: &str) -> bool {
    let required = std::env::var("MJOLNIR_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "{test}: needs {need}, and MJOLNIR_REQUIRE_TOOLS=1 lets nothing be skipped");
    println!("skipped {test}: needs {need}");
    false
}

fn path() -> String {
    format!("{FOLDERS}:{}", std::env::var("PATH").unwrap_or_default())
}

fn find(program: &str) -> Option<PathBuf> {
    path().split(':').map(|folder| Path::new(folder).join(program)).find(|file| file.is_file())
}

/// A command that is ended if it takes too long.
pub fn command(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE_S, program]).env("PATH", path()).env("LC_ALL", "C");
    command
}

/// A command that runs until it is killed; whoever starts it sees to that.
pub fn lasting(program: &str) -> Command {
    let mut command = Command::new(find(program).expect("asked for before"));
    command.env("PATH", path()).env("LC_ALL", "C");
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Said {
    let output = command.output().expect("a program that was found starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a program that must succeed; returns its standard output.
pub fn ok<A: AsRef<std::ffi::OsStr>>(program: &str, arguments: &[A]) -> String {
    succeed(command(program).args(arguments))
}

/// Runs a command that must succeed; returns its standard output.
pub fn succeed(command: &mut Command) -> String {
    let said = run(command);
    assert_eq!(said.code, Some(0), "{command:?} failed:\n{}\n{}", said.out, said.err);
    said.out
}
