//! A store in a folder of its own, and its server.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::client::Client;
use super::tools;
use crate::support::program;

/// A store `s.mj` in a folder that goes with it.
pub struct TestStore {
    folder: TempDir,
    /// Where what outlives its servers goes with it.
    warm: TempDir,
}

impl Drop for TestStore {
    fn drop(&mut self) {
        for pointer in crate::support::pointers_to(self.warm.path()) {
            let _ = std::fs::remove_file(pointer);
        }
    }
}

impl TestStore {
    /// A store of that size with a volume `v` of the other.
    pub fn new(size: &str, volume: &str) -> Self {
        let warm = TempDir::new_in("/dev/shm").expect("a memory file system");
        let store = TestStore { folder: TempDir::new().unwrap(), warm };
        store.ok(&format!("format s.mj --size {size}"));
        store.ok(&format!("volume create s.mj v --size {volume}"));
        store
    }

    /// A file beside the store.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(program());
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.env("MJOLNIR_WARM_LOG", self.warm.path());
        command
    }

    /// Runs `mjolnir` with those words; returns its standard output.
    pub fn ok(&self, words: &str) -> String {
        tools::succeed(&mut self.command(words))
    }

    /// Runs `mjolnir --json` with those words.
    pub fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("--json {words}"))).unwrap()
    }

    /// One of the numbers of `mjolnir stats --json`.
    pub fn stat(&self, name: &str) -> u64 {
        self.json("stats s.mj")[name].as_u64().unwrap_or_else(|| panic!("no number {name}"))
    }

    /// Checks the structure of the store, at rest or served.
    pub fn check(&self) {
        let report = self.json("check s.mj");
        assert_eq!(report["problems"], Value::Array(vec![]), "{report}");
    }

    /// Serves it on the unix socket `n.sock`, until dropped.
    pub fn serve(&self) -> Server<'_> {
        self.serve_with("")
    }

    /// As [`serve`](Self::serve), with further options.
    pub fn serve_with(&self, words: &str) -> Server<'_> {
        let log = File::options().create(true).append(true).open(self.path("server.log")).unwrap();
        let mut command = self.command(&format!("serve s.mj --nbd unix:n.sock {words}"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let server = Server { child, ready, store: self };
        let said = &server.ready;
        assert!(said.contains("ready"), "the server said {said:?} and {}", server.log());
        server
    }

    /// Address of a volume or snapshot.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path("n.sock").display())
    }

    /// Runs `mjolnir` with those words; it must refuse, in a sentence with all those parts.
    #[cfg(feature = "tls")]
    pub fn refused(&self, words: &str, parts: &[&str]) {
        let said = tools::run(&mut self.command(words));
        assert_eq!(said.code, Some(1), "mjolnir {words}: {said:?}");
        for part in parts {
            assert!(said.err.contains(part), "mjolnir {words}: no {part:?} in {}", said.err);
        }
    }

    pub fn client(&self, export: &str) -> Client {
        Client::connect(&self.path("n.sock"), export)
    }
}

/// A server that runs; killed when dropped.
pub struct Server<'a> {
    child: Child,
    ready: String,
    store: &'a TestStore,
}

impl Server<'_> {
    /// The TCP port that it told.
    #[cfg(feature = "tls")]
    pub fn port(&self) -> u16 {
        let address = self.ready.split("://").find_map(|part| {
            part.split_once('/').and_then(|(address, _)| address.rsplit_once(':'))
        });
        address.and_then(|(_, port)| port.parse().ok()).expect("it listens on TCP")
    }

    /// What it said on standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.store.path("server.log")).unwrap_or_default()
    }

    /// Waits until it says so on standard error.
    #[cfg(feature = "tls")]
    pub fn wait_for(&self, what: &str) {
        for _ in 0..3000 {
            if self.log().contains(what) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the server never says {what:?}");
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "it ended by itself: {}", self.log());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in order.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.log());
        }
    }
}
