//! What the tests of the program share: a folder with a store in it, the program itself, its
//! server, and a small NBD client.

pub mod nbd;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub fn program() -> PathBuf {
    match std::env::var_os("MJOLNIR_BIN") {
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_mjolnir").into(),
    }
}

/// Whether the program was built with TLS. One that `MJOLNIR_BIN` names is the one that ships, which
/// is built without.
pub fn has_tls() -> bool {
    cfg!(feature = "tls") && std::env::var_os("MJOLNIR_BIN").is_none()
}

/// A folder of its own, in which commands run.
pub struct Folder {
    folder: TempDir,
    /// Where what outlives its servers goes with it.
    warm: TempDir,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Folder {
    /// An empty one.
    pub fn empty() -> Self {
        let warm = TempDir::new_in("/dev/shm").expect("a memory file system");
        Folder { folder: TempDir::new().unwrap(), warm }
    }

    /// One with a store `s.mj` of 64 MiB and a volume `v` of 16 MiB.
    pub fn with_store() -> Self {
        let folder = Folder::empty();
        folder.ok("format s.mj --size 64M");
        folder.ok("volume create s.mj v --size 16M");
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(program());
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("MJOLNIR_WARM_LOG", self.warm.path());
        command
    }

    /// Where what outlives servers of this folder's stores is to lie.
    pub fn warm_path(&self) -> &Path {
        self.warm.path()
    }

    /// Files that outlive servers of this folder's stores.
    pub fn warm_files(&self) -> usize {
        std::fs::read_dir(self.warm.path()).unwrap().count()
    }

    /// Files in a usual folder that lead to those.
    pub fn pointers(&self) -> usize {
        pointers_to(self.warm.path()).len()
    }

    /// Runs the program with those words.
    pub fn run(&self, words: &str) -> Said {
        said(self.command(words).output().unwrap())
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, words: &str) -> String {
        let said = self.run(words);
        assert_eq!(said.code, Some(0), "mjolnir {words}: {said:?}");
        said.out
    }

    /// What a command that must succeed prints as JSON.
    pub fn json(&self, words: &str) -> serde_json::Value {
        let out = self.ok(&format!("{words} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("mjolnir {words}: {error}: {out}"))
    }

    /// Runs a command that must be refused with exit status 1 and one sentence that has all those
    /// parts; returns the sentence.
    pub fn refused(&self, words: &str, parts: &[&str]) -> String {
        let said = self.run(words);
        assert_eq!(said.code, Some(1), "mjolnir {words}: {said:?}");
        sentence(&said, words, parts)
    }

    /// Runs a command line that is wrong: exit status 2, and a complaint that has all those parts.
    pub fn misused(&self, words: &str, parts: &[&str]) {
        let said = self.run(words);
        assert_eq!(said.code, Some(2), "mjolnir {words}: {said:?}");
        for part in parts {
            assert!(said.err.contains(part), "mjolnir {words}: no {part:?} in {}", said.err);
        }
    }

    /// Starts a server of `s.mj` on the unix socket `n.sock`, with those further words.
    pub fn serve(&self, words: &str) -> Server<'_> {
        self.start(self.command(&format!("serve s.mj --nbd unix:n.sock {words}")))
    }

    /// The same as a shell starts it after a command of its own.
    pub fn serve_after(&self, command: &str) -> Server<'_> {
        let script = format!("{command} && exec \"$0\" serve s.mj --nbd unix:n.sock");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program()).current_dir(self.folder.path());
        shell.env("MJOLNIR_WARM_LOG", self.warm.path());
        self.start(shell)
    }

    /// Starts a server, and waits until it is ready.
    pub fn start(&self, mut command: Command) -> Server<'_> {
        let log = std::fs::File::create(self.path("server.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let server = Server { child, ready, folder: self };
        assert!(server.ready.contains("ready"), "the server said {:?}", server.log());
        server
    }

    /// Starts a server of sockets that are passed to it, and waits until it says on standard error that it
    /// is ready. What it writes to standard output is in `server.out`.
    pub fn start_activated(&self, mut command: Command) -> Server<'_> {
        let file = |name: &str| std::fs::File::create(self.path(name)).unwrap();
        let command = command.stdout(file("server.out")).stderr(file("server.log"));
        let child = command.spawn().unwrap();
        let mut server = Server { child, ready: String::new(), folder: self };
        server.wait_for("ready");
        server.ready = server.log();
        server
    }
}

/// Servers that were killed leave them where everybody looks.
impl Drop for Folder {
    fn drop(&mut self) {
        for pointer in pointers_to(self.warm.path()) {
            let _ = std::fs::remove_file(pointer);
        }
    }
}

/// Files that lead to warm logs in a folder.
pub fn pointers_to(warm: &Path) -> Vec<PathBuf> {
    let usual = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    let leads = |path: &PathBuf| {
        let log = std::fs::read_to_string(path).unwrap_or_default();
        Path::new(&log).starts_with(warm)
    };
    usual.filter(|path| path.extension().is_some_and(|it| it == "at")).filter(leads).collect()
}

fn said(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn sentence(said: &Said, words: &str, parts: &[&str]) -> String {
    let lines: Vec<&str> = said
        .err
        .lines()
        .filter(|line| !["mjolnir: warning", "mjolnir: note"].iter().any(|it| line.starts_with(it)))
        .collect();
    let [line] = lines[..] else {
        panic!("mjolnir {words}: not one sentence: {}", said.err);
    };
    assert!(line.starts_with("mjolnir: "), "{line}");
    for part in parts {
        assert!(line.contains(part), "mjolnir {words}: no {part:?} in {line:?}");
    }
    line.to_owned()
}

/// A server that runs; killed when dropped.
pub struct Server<'a> {
    child: Child,
    pub ready: String,
    folder: &'a Folder,
}

impl Server<'_> {
    /// What it said on standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path("server.log")).unwrap()
    }

    /// Waits until it says so on standard error.
    pub fn wait_for(&self, what: &str) {
        wait_until(&format!("the server says {what:?}"), || self.log().contains(what));
    }

    /// Connects to a volume or snapshot.
    pub fn client(&self, export: &str) -> nbd::Client {
        nbd::Client::connect(&self.folder.path("n.sock"), export)
    }

    /// The most memory that it had in use, by the kernel's count.
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = line.trim().split(' ').next().unwrap().parse().unwrap();
        kib * 1024
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; returns the exit status.
    pub fn wait(mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it in order.
    pub fn stop(self) {
        let log = self.folder.path("server.log");
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0), "{}", std::fs::read_to_string(log).unwrap());
    }

    /// Ends it as a crash does.
    pub fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.wait(), None);
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that differ from block to block and from one `seed` to another.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
