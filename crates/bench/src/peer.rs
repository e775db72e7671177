//! Other programs: peers, our own server, and fio, which drives them all.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::place::{adopt, release};

/// Whether a program is on `PATH`.
pub fn is_there(program: &str) -> bool {
    find(program).is_some()
}

/// Where a program lies on `PATH`, or where root's programs usually lie.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A program of that name, wherever it lies.
pub fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| program.into()))
}

/// Runs a program to its end; what it printed.
pub fn succeed(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
    let id = child.id();
    adopt(id);
    let output = child.wait_with_output().with_context(|| format!("{shown} is lost"))?;
    release(id);
    if !output.status.success() {
        bail!("{shown} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A server that listens on a unix socket; ended when dropped.
pub struct Server {
    child: Child,
    /// What the table calls it.
    pub name: &'static str,
    socket: PathBuf,
    export: &'static str,
}

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// nbdkit's file plugin.
    pub fn nbdkit(folder: &Path, image: &Path, advice: &str) -> Result<Self> {
        let socket = folder.join("nbdkit.sock");
        let mut command = command("nbdkit");
        command.arg("-U").arg(&socket).args(["--foreground", "file"]).arg(image);
        command.arg(format!("fadvise={advice}"));
        Self::start("nbdkit file", "", socket, command)
    }

    /// qemu-nbd on an image of that format.
    pub fn qemu(folder: &Path, image: &Path, format: &str, options: &[&str]) -> Result<Self> {
        let socket = folder.join(format!("qemu-{format}.sock"));
        let mut command = command("qemu-nbd");
        command.arg("-k").arg(&socket).args(["-t", "-e", "8", "-f", format]).args(options);
        command.arg(image);
        let name = if format == "raw" { "qemu-nbd raw" } else { "qemu-nbd qcow2" };
        Self::start(name, "", socket, command)
    }

    /// Ours, on a store with a volume `v`.
    pub fn ours(program: &Path, folder: &Path, store: &Path, options: &[&str]) -> Result<Self> {
        let socket = folder.join("mjolnir.sock");
        let mut command = Command::new(program);
        command.arg("serve").arg(store).arg("--nbd");
        command.arg(format!("unix:{}", socket.display())).args(options);
        Self::start("mjolnir", "v", socket, command)
    }

    fn start(
        name: &'static str,
        export: &'static str,
        socket: PathBuf,
        mut command: Command,
    ) -> Result<Self> {
        let _ = std::fs::remove_file(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let shown = format!("{command:?}");
        let child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
        adopt(child.id());
        let mut server = Server { child, name, socket, export };
        if name == "mjolnir" {
            let mut ready = String::new();
            let stdout = server.child.stdout.take().context("its output is piped")?;
            BufReader::new(stdout).read_line(&mut ready).context("cannot read what it says")?;
            if !ready.contains("ready") {
                bail!("{shown} is not ready: {ready:?}");
            }
            return Ok(server);
        }
        let began = Instant::now();
        while !server.socket.exists() {
            if let Some(status) = server.child.try_wait().context("it is lost")? {
                bail!("{shown} ended with {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("{shown} does not listen");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Seconds of processor time that it has used, the kernel's for it included.
    pub fn processor_s(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The name, in brackets, may hold anything; user and system time are the 12th and 13th
        // fields behind it, in hundredths of a second.
        let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    /// Ends it in order, so that it leaves its store or image whole.
    pub fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .with_context(|| format!("cannot end {}", self.name))?;
        self.child.wait().with_context(|| format!("{} is lost", self.name))?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        release(self.child.id());
    }
}

/// A load for fio.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// fio's name for it: `randwrite`, `read`, ...
    pub kind: &'static str,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// Bytes of the export.
    pub span: u64,
    /// Bytes in all.
    pub total: u64,
    /// End with a flush, within the time.
    pub fsync: bool,
    /// Of chance.
    pub seed: u64,
}

/// What fio saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Bytes a second over the whole time, a final flush included.
    pub rate: f64,
    /// Of completions, in microseconds: half, 99 of 100, and 999 of 1,000 took at most this.
    pub p_us: [f64; 3],
    /// Processor time of the server for each request, in microseconds.
    pub processor_us: f64,
}

impl Measured {
    /// Requests a second, in thousands, and latencies.
    pub fn text(&self, bytes: u64) -> String {
        let [a, b, c] = self.p_us;
        format!("{:.1} k/s (p50/p99/p99.9 {a:.0}/{b:.0}/{c:.0} µs)", self.rate / bytes as f64 / 1e3)
    }
}

/// Whether fio can speak NBD.
pub fn fio_has_nbd() -> bool {
    succeed(command("fio").arg("--enghelp"))
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "nbd"))
}

/// Runs a load on a server.
pub fn fio(server: &Server, job: Job) -> Result<Measured> {
    let mut command = command("fio");
    command.args(["--name=v", "--ioengine=nbd", "--output-format=json", "--norandommap=1"]);
    let uri = format!("nbd+unix:///{}?socket={}", server.export, server.socket.display());
    command.arg(format!("--uri={uri}")).arg(format!("--rw={}", job.kind));
    command.arg(format!("--bs={}", job.bytes)).arg(format!("--iodepth={}", job.depth));
    command.arg(format!("--size={}", job.span)).arg(format!("--io_size={}", job.total));
    command.arg(format!("--end_fsync={}", u8::from(job.fsync)));
    command.arg(format!("--randseed={}", job.seed + 1)).arg("--percentile_list=50:99:99.9");
    let before = server.processor_s();
    let text = succeed(&mut command)?;
    let used = server.processor_s() - before;
    let start = text.find('{').context("fio printed no JSON")?;
    let json: Value = serde_json::from_str(&text[start..]).context("reading what fio printed")?;
    let job_json = &json["jobs"][0];
    if job_json["error"].as_i64() != Some(0) {
        bail!("fio on {} ended with error {}", server.name, job_json["error"]);
    }
    let side = &job_json[if job.kind.ends_with("read") { "read" } else { "write" }];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    // fio's run time of a job ends with its final flush.
    let seconds = number(&side["runtime"]) / 1e3;
    let count = number(&side["total_ios"]);
    if seconds == 0.0 || count == 0.0 {
        bail!("fio on {} did nothing", server.name);
    }
    let percentile = |name: &str| number(&side["clat_ns"]["percentile"][name]) / 1e3;
    Ok(Measured {
        rate: number(&side["io_bytes"]) / seconds,
        p_us: [percentile("50.000000"), percentile("99.000000"), percentile("99.900000")],
        processor_us: used * 1e6 / count,
    })
}
