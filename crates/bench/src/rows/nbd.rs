//! Through NBD, beside peers on the same disk: one image for each server, all of it written before
//! anything counts, and fio as the client.
//!
//! Both promises are compared: without a flush (then each server may answer from memory), and with
//! a final one within the time (then all that was written is on the disk when the time ends).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::size_text;
use crate::direct;
use crate::peer::{self, Job, Measured, Server};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, KIB, MIB};

const NEEDS: &[&str] = &["fio", "nbdkit", "qemu-nbd"];

pub const ROWS: &[Row] = &[
    Row {
        name: "nbd-randwrite",
        needs: NEEDS,
        lines: &[
            Line {
                name: "nbd-randwrite",
                what: "fio through NBD, 4 KiB random write, queue depth 32, no reclaim needed, \
                       without any flush: against the better of nbdkit's file plugin and qemu-nbd \
                       on a raw file",
                unit: "x",
                target: Target::Least(1.0),
            },
            Line {
                name: "nbd-randwrite-fsync",
                what: "the same with a final fsync inside the measured time",
                unit: "x",
                target: Target::Least(1.0),
            },
            Line {
                name: "nbd-cpu-write",
                what: "processor time of the server for a 4 KiB random write through NBD",
                unit: "µs",
                target: Target::None,
            },
        ],
        run: random_write,
    },
    Row {
        name: "nbd-record",
        needs: &["fio"],
        lines: &[
            Line {
                name: "nbd-cpu-record",
                what: "processor time of the server for 4 KiB random writes through NBD, queue depth \
                       32, while it records them (`serve --record`): against the same without",
                unit: "x",
                target: Target::None,
            },
            Line {
                name: "nbd-record-bytes",
                what: "bytes of the recording for each request",
                unit: "B",
                target: Target::None,
            },
        ],
        run: recorded,
    },
    Row {
        name: "nbd-snapshot",
        needs: &["fio", "qemu-nbd", "qemu-img"],
        lines: &[
            Line {
                name: "nbd-snapshot",
                what: "fio through NBD, 4 KiB random write, queue depth 32, one snapshot: against \
                       qemu-nbd on qcow2 with one internal snapshot, without any flush",
                unit: "x",
                target: Target::Least(2.0),
            },
            Line {
                name: "nbd-snapshot-fsync",
                what: "the same with a final fsync inside the measured time",
                unit: "x",
                target: Target::Least(2.0),
            },
        ],
        run: with_snapshot,
    },
    Row {
        name: "nbd-randread",
        needs: NEEDS,
        lines: &[
            Line {
                name: "nbd-randread",
                what: "fio through NBD, 4 KiB random read, queue depth 32, all caches cold, \
                       checksums verified: against the better of the two raw peers",
                unit: "x",
                target: Target::Least(0.9),
            },
            Line {
                name: "nbd-cpu-read",
                what: "processor time of the server for a 4 KiB random read through NBD",
                unit: "µs",
                target: Target::None,
            },
        ],
        run: random_read,
    },
    Row {
        name: "nbd-sequential",
        needs: NEEDS,
        lines: &[
            Line {
                name: "nbd-seqwrite",
                what: "fio through NBD, 128 KiB sequential write, queue depth 8, without any \
                       flush: against the better of the two raw peers",
                unit: "x",
                target: Target::Least(0.9),
            },
            Line {
                name: "nbd-seqwrite-fsync",
                what: "the same with a final fsync inside the measured time",
                unit: "x",
                target: Target::Least(0.9),
            },
            Line {
                name: "nbd-seqread",
                what: "128 KiB sequential read, queue depth 8, all caches cold: against the \
                       better of the two raw peers",
                unit: "x",
                target: Target::Least(0.9),
            },
        ],
        run: sequential,
    },
];

/// The `mjolnir` program.
fn program(bench: &Bench) -> Result<PathBuf> {
    let program = match &bench.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .context("cannot tell where this program lies; say --program")?
            .with_file_name("mjolnir"),
    };
    ensure!(
        program.is_file(),
        "{} is missing: build it in release (cargo xtask bench does), or say --program",
        program.display()
    );
    ensure!(peer::fio_has_nbd(), "fio here has no nbd engine");
    Ok(program)
}

/// How large.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of each image.
    span: u64,
    /// Bytes that each run writes or reads.
    total: u64,
    rounds: usize,
}

impl Size {
    fn of(bench: &Bench, total: (u64, u64)) -> Self {
        Size {
            span: bench.size(16 * MIB, 512 * MIB, 4 * GIB),
            total: bench.size(2 * MIB, total.0, total.1),
            rounds: bench.rounds,
        }
    }
}

/// A store with a volume `v`, all of it written. Room for `runs` runs besides, so that nothing is
/// reclaimed.
fn our_store(program: &Path, folder: &Path, size: Size, runs: u64) -> Result<PathBuf> {
    let store = folder.join("s.mj");
    let say = |words: &[&str]| {
        let mut command = std::process::Command::new(program);
        peer::succeed(command.arg(words[0]).args(&words[1..]))
    };
    let name = store.to_str().context("the folder's name is not text; say --dir")?;
    // Reclaim begins at half.
    let bytes = 2 * (size.span + (runs + 1) * size.total) * 5 / 4 + GIB;
    say(&["format", name, "--size", &bytes.to_string()])?;
    say(&["volume", "create", name, "v", "--size", &size.span.to_string()])?;
    let server = Server::ours(program, folder, &store, &[])?;
    peer::fio(&server, fill(size))?;
    server.stop()?;
    Ok(store)
}

fn fill(size: Size) -> Job {
    Job {
        kind: "write",
        bytes: 128 * KIB,
        depth: 8,
        span: size.span,
        total: size.span,
        fsync: true,
        seed: 0,
    }
}

/// A raw image, all of it written.
fn raw_image(folder: &Path, size: Size, name: &str) -> Result<PathBuf> {
    let image = folder.join(name);
    let file = std::fs::File::create_new(&image).context("making an image")?;
    file.set_len(size.span).context("making an image")?;
    drop(file);
    let server = Server::nbdkit(folder, &image, "normal")?;
    peer::fio(&server, fill(size))?;
    server.stop()?;
    direct::forget(&image)?;
    Ok(image)
}

/// The servers of a row, each with the file that it serves.
struct Contest {
    program: PathBuf,
    folder: PathBuf,
    store: PathBuf,
    nbdkit_image: PathBuf,
    qemu_image: PathBuf,
}

impl Contest {
    fn prepare(bench: &Bench, size: Size, runs: u64) -> Result<Self> {
        let program = program(bench)?;
        let folder = bench.place.path().to_owned();
        let needed = 3 * size.span + runs * size.total + GIB;
        let room = bench.place.room()?;
        if room < needed {
            bail!("{} are needed on this disk; {} are left", size_text(needed), size_text(room));
        }
        let store = our_store(&program, &folder, size, runs)?;
        let nbdkit_image = raw_image(&folder, size, "nbdkit.img")?;
        let qemu_image = raw_image(&folder, size, "qemu.img")?;
        Ok(Contest { program, folder, store, nbdkit_image, qemu_image })
    }

    /// A server; 0 is ours. All files are written back and out of the page cache before.
    fn server(&self, which: usize, advice: &str, direct_io: bool) -> Result<Server> {
        for file in [&self.store, &self.nbdkit_image, &self.qemu_image] {
            direct::forget(file)?;
        }
        match which {
            0 => Server::ours(&self.program, &self.folder, &self.store, &[]),
            1 => Server::nbdkit(&self.folder, &self.nbdkit_image, advice),
            _ => {
                let options: &[&str] = match direct_io {
                    true => &["--cache=none", "--aio=io_uring"],
                    false => &["--cache=writeback", "--aio=threads"],
                };
                Server::qemu(&self.folder, &self.qemu_image, "raw", options)
            }
        }
    }

    /// All three, in an order that changes from round to round.
    fn round(
        &self,
        round: usize,
        job: Job,
        advice: &str,
        direct_io: bool,
    ) -> Result<[Measured; 3]> {
        let mut measured = [Measured::default(); 3];
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let server = self.server(which, advice, direct_io)?;
            measured[which] = peer::fio(&server, job)?;
            server.stop()?;
        }
        Ok(measured)
    }
}

/// What rounds of a contest gave.
#[derive(Default)]
struct Tally {
    ratio: Samples,
    rounds: Vec<[Measured; 3]>,
}

impl Tally {
    fn add(&mut self, measured: [Measured; 3]) {
        let [ours, peers @ ..] = &measured;
        let best = peers.iter().map(|peer| peer.rate).fold(0.0, f64::max);
        self.ratio.push(ours.rate / best);
        self.rounds.push(measured);
    }

    /// Medians of the three, each by itself.
    fn note(&self, bytes: u64) -> String {
        let names = ["mjolnir", "nbdkit file", "qemu-nbd raw"];
        let texts = names.iter().enumerate().map(|(which, name)| {
            let mut runs: Vec<Measured> = self.rounds.iter().map(|round| round[which]).collect();
            runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            let middle = runs[runs.len() / 2];
            let cpu = format!("{:.1} µs of processor", middle.processor_us);
            let rate = middle.rate / 1e6;
            format!("{name} {rate:.0} MB/s, {}, {cpu}", middle.text(bytes))
        });
        texts.collect::<Vec<_>>().join("; ")
    }

    fn processor(&self) -> Samples {
        let mut samples = Samples::new();
        self.rounds.iter().for_each(|round| samples.push(round[0].processor_us));
        samples
    }
}

fn job(kind: &'static str, size: Size, round: usize) -> Job {
    let random = kind.starts_with("rand");
    Job {
        kind,
        bytes: if random { 4 * KIB } else { 128 * KIB },
        depth: if random { 32 } else { 8 },
        span: size.span,
        total: size.total,
        fsync: false,
        seed: round as u64,
    }
}

fn random_write(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = Size::of(bench, (128 * MIB, GIB));
    let contest = Contest::prepare(bench, size, 2 * size.rounds as u64)?;
    let mut tallies = [Tally::default(), Tally::default()];
    for round in 0..size.rounds {
        for (fsync, tally) in [false, true].into_iter().zip(&mut tallies) {
            let job = Job { fsync, ..job("randwrite", size, round) };
            tally.add(contest.round(round, job, "random", false)?);
        }
    }
    for (name, tally) in ["nbd-randwrite", "nbd-randwrite-fsync"].iter().zip(&tallies) {
        report.line(name, &tally.ratio, &tally.note(4 * KIB));
    }
    report.line("nbd-cpu-write", &tallies[0].processor(), "without any flush");
    Ok(())
}

fn recorded(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = Size::of(bench, (512 * MIB, GIB));
    let (program, folder) = (program(bench)?, bench.place.path());
    let store = our_store(&program, folder, size, 2 * size.rounds as u64)?;
    let recording = folder.join("r.mjtrace");
    let name = recording.to_str().context("the folder's name is not text; say --dir")?;
    let (mut ratio, mut bytes, mut note) = (Samples::new(), Samples::new(), String::new());
    for round in 0..size.rounds {
        let mut processor_us = [0.0; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            direct::forget(&store)?;
            let options: &[&str] = if which == 1 { &["--record", name] } else { &[] };
            let server = Server::ours(&program, folder, &store, options)?;
            processor_us[which] = peer::fio(&server, job("randwrite", size, round))?.processor_us;
            server.stop()?;
        }
        let count = size.total as f64 / (4 * KIB) as f64;
        bytes.push(recording.metadata().context("the recording")?.len() as f64 / count);
        std::fs::remove_file(&recording).context("removing the recording")?;
        let [without, with] = processor_us;
        ratio.push(with / without);
        note = format!("{with:.2} µs against {without:.2} µs (last round)");
    }
    report.line("nbd-cpu-record", &ratio, &note);
    report.line("nbd-record-bytes", &bytes, "");
    Ok(())
}

fn random_read(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = Size::of(bench, (64 * MIB, GIB));
    let contest = Contest::prepare(bench, size, 1)?;
    let mut tally = Tally::default();
    for round in 0..size.rounds {
        tally.add(contest.round(round, job("randread", size, round), "random", true)?);
    }
    let note = format!(
        "{}; mjolnir and qemu-nbd read directly, nbdkit through a page cache that was emptied; \
         mjolnir's server is new each time, so its map and checksums are cold too",
        tally.note(4 * KIB)
    );
    report.line("nbd-randread", &tally.ratio, &note);
    report.line("nbd-cpu-read", &tally.processor(), "");
    Ok(())
}

fn sequential(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = Size::of(bench, (512 * MIB, 4 * GIB));
    let contest = Contest::prepare(bench, size, 2 * size.rounds as u64)?;
    let mut tallies = [Tally::default(), Tally::default(), Tally::default()];
    for round in 0..size.rounds {
        for (fsync, tally) in [false, true].into_iter().zip(&mut tallies) {
            let job = Job { fsync, ..job("write", size, round) };
            tally.add(contest.round(round, job, "sequential", false)?);
        }
        tallies[2].add(contest.round(round, job("read", size, round), "sequential", true)?);
    }
    let names = ["nbd-seqwrite", "nbd-seqwrite-fsync", "nbd-seqread"];
    for (name, tally) in names.iter().zip(&tallies) {
        report.line(name, &tally.ratio, &tally.note(128 * KIB));
    }
    Ok(())
}

fn with_snapshot(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut size = Size::of(bench, (32 * MIB, 256 * MIB));
    size.rounds = size.rounds.min(3);
    let program = program(bench)?;
    let folder = bench.place.path();
    let raw = raw_image(folder, size, "raw.img")?;
    let (mut tallies, mut notes) =
        ([Samples::new(), Samples::new()], [String::new(), String::new()]);
    for round in 0..size.rounds {
        for (at, fsync) in [false, true].into_iter().enumerate() {
            let job = Job { fsync, ..job("randwrite", size, round) };
            // Both are made anew: what matters is the first writes after a snapshot.
            let image = folder.join("q.qcow2");
            let image_name = image.to_str().context("the folder's name is not text")?;
            let mut convert = peer::command("qemu-img");
            peer::succeed(convert.args(["convert", "-O", "qcow2"]).arg(&raw).arg(&image))?;
            let mut snapshot = peer::command("qemu-img");
            peer::succeed(snapshot.args(["snapshot", "-c", "one", image_name]))?;
            direct::forget(&image)?;
            let options = ["--cache=writeback", "--aio=threads"];
            let server = Server::qemu(folder, &image, "qcow2", &options)?;
            let theirs = peer::fio(&server, job)?;
            server.stop()?;
            std::fs::remove_file(&image).context("removing an image")?;

            let store = our_store(&program, folder, size, 2)?;
            let store_name = store.to_str().context("the folder's name is not text")?;
            let mut snapshot = std::process::Command::new(&program);
            peer::succeed(snapshot.args(["snapshot", "create", store_name, "v@one"]))?;
            direct::forget(&store)?;
            let server = Server::ours(&program, folder, &store, &[])?;
            let ours = peer::fio(&server, job)?;
            server.stop()?;
            std::fs::remove_file(&store).context("removing a store")?;

            tallies[at].push(ours.rate / theirs.rate);
            notes[at] = format!(
                "mjolnir {}; qemu-nbd qcow2 {} (last round)",
                ours.text(4 * KIB),
                theirs.text(4 * KIB)
            );
        }
    }
    report.line("nbd-snapshot", &tallies[0], &notes[0]);
    report.line("nbd-snapshot-fsync", &tallies[1], &notes[1]);
    Ok(())
}
