//! A libnbd client over TLS that stays connected while others try their luck.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::tools;

/// Writes at the beginning, waits for a word, and reads back what it wrote.
const SCRIPT: &str = "\
import nbd, sys
h = nbd.NBD()
h.set_uri_allow_local_file(True)
h.connect_uri(sys.argv[1])
assert h.get_tls_negotiated()
data = bytes(range(256)) * 4096
h.pwrite(data, 0)
print('written', flush=True)
for line in sys.stdin:
    assert h.pread(len(data), 0) == data
    h.pwrite(data, 1 << 20, nbd.CMD_FLAG_FUA)
    print('same', flush=True)
h.shutdown()
";

/// The program that it needs.
pub const TOOL: &str = "nbdsh";

/// The client; it leaves when dropped.
pub struct Secured {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Secured {
    /// Connects by URI, and writes.
    pub fn connect(uri: &str) -> Self {
        let mut command = tools::lasting("python3");
        command.args(["-c", SCRIPT, uri]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Secured { child, input, output };
        client.hear("written");
        client
    }

    /// Proves that it is unharmed: it reads what it wrote, and writes more.
    pub fn assert_unharmed(&mut self) {
        self.input.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.hear("same");
    }

    /// Leaves in order.
    pub fn leave(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }

    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
