//! The lab: how fast the engine is simulated, and in how much memory.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use mjolnir_study::Study;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Timer;
use crate::place::{adopt, release};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};

pub const ROWS: &[Row] = &[
    Row {
        name: "lab-timed-reclaim",
        needs: &[],
        lines: &[Line {
            name: "lab-timed-reclaim",
            what: "timed simulation of a 4 GiB drive, 8 KiB random writes, reclaim working at a \
                   WAF of about 2.4: requests a processor second (MQSim: 25 k to 29 k)",
            unit: "k/s",
            target: Target::Least(300.0),
        }],
        run: timed_with_reclaim,
    },
    Row {
        name: "lab-timed",
        needs: &[],
        lines: &[Line {
            name: "lab-timed",
            what: "timed simulation of a 64 GiB drive, 8 KiB random reads and writes, no reclaim: \
                   requests a processor second (MQSim: 47 k to 97 k)",
            unit: "k/s",
            target: Target::Least(600.0),
        }],
        run: timed,
    },
    Row {
        name: "lab-untimed",
        needs: &[],
        lines: &[Line {
            name: "lab-untimed",
            what: "untimed simulation of a 4 GiB drive, 4 KiB random overwrites: block writes a \
                   processor second, those of reclaim included (DiskSim: 58.5 k requests)",
            unit: "M/s",
            target: Target::Least(3.0),
        }],
        run: untimed,
    },
    Row {
        name: "lab-memory-32g",
        needs: &[],
        lines: &[Line {
            name: "lab-memory-32g",
            what: "the most memory that the process has while a 32 GiB drive is simulated, \
                   oracle off (DiskSim: 103 MiB)",
            unit: "MiB",
            target: Target::Most(100.0),
        }],
        run: memory,
    },
];

/// The share of a run that is called done when the measured part begins.
const MEASURED_FROM: f64 = 0.3;

/// What one run came to.
#[derive(Deserialize, Serialize)]
struct Run {
    requests: u64,
    /// Blocks written to the medium.
    blocks: f64,
    waf: f64,
    data_waf: f64,
    /// Processor seconds, preconditioning not counted.
    seconds: f64,
    /// The most memory that the process had, by the kernel's count.
    peak_bytes: u64,
    drive_bytes: f64,
    engine_bytes: f64,
    nand_bytes: f64,
}

/// Runs a study in a process of its own, so that neither its time nor its memory has a share of
/// what was measured before.
fn simulate(study: &Value) -> Result<Run> {
    let mut command = Command::new(std::env::current_exe().context("cannot tell what this is")?);
    command.arg("--simulate").arg(study.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().context("cannot run itself")?;
    let id = child.id();
    adopt(id);
    let output = child.wait_with_output().context("a copy of itself is lost")?;
    release(id);
    ensure!(output.status.success(), "the simulation ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("what the simulation told")
}

/// The part of [`simulate`] in the other process: prints what came of a study.
pub fn simulate_here(study: &str) -> Result<bool> {
    let study: Study = serde_json::from_str(study)?;
    let (mut timer, mut begun) = (Timer::start(), false);
    let mut note = |share: f64| {
        if share >= MEASURED_FROM && !std::mem::replace(&mut begun, share >= MEASURED_FROM) {
            timer = Timer::start();
        }
        true
    };
    let measured = mjolnir_study::run(&study, 1, &mut note).map_err(|why| anyhow!(why))?;
    let seconds = timer.took().process_s;
    let number = |name: &str| measured.outcome.numbers.get(name).copied().unwrap_or(0.0);
    let run = Run {
        requests: measured.requests,
        blocks: measured.written.total_blocks(),
        waf: measured.written.waf(),
        data_waf: measured.written.data_waf(),
        seconds,
        peak_bytes: peak_bytes()?,
        drive_bytes: number("drive_bytes"),
        engine_bytes: number("engine_memory_bytes"),
        nand_bytes: number("drive_memory_bytes"),
    };
    println!("{}", serde_json::to_string(&run)?);
    Ok(true)
}

/// The most memory that this process had in use, in bytes.
fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).context("the kernel does not say how much memory was in use")
}

fn note(run: &Run) -> String {
    format!(
        "{} requests in {:.2} s; WAF {:.2}, of data {:.2} (last round)",
        run.requests, run.seconds, run.waf, run.data_waf
    )
}

/// Runs a study in each round, and tells a figure of it.
fn tell(
    bench: &Bench,
    report: &mut Report,
    name: &str,
    study: &Value,
    figure: fn(&Run) -> f64,
) -> Result<()> {
    let (mut samples, mut text) = (Samples::new(), String::new());
    for _ in 0..bench.rounds.min(bench.size(1, 2, 3)) {
        let run = simulate(study)?;
        samples.push(figure(&run));
        text = note(&run);
    }
    report.line(name, &samples, &text);
    Ok(())
}

fn requests(run: &Run) -> f64 {
    run.requests as f64 / run.seconds / 1e3
}

fn timed_with_reclaim(bench: &Bench, report: &mut Report) -> Result<()> {
    let study = json!({
        "device": { "file": "mqsim-mlc", "nand": { "blocks_per_plane": bench.size(8, 16, 16) } },
        "drive": { "over_provisioning": 0.32 },
        "workload": { "synthetic": { "job": [{ "rw": "randwrite", "bs": "8k", "iodepth": 16 }] } },
        "precondition": {
            "fill": 1.0, "overwrites": bench.size(0.0, 2.0, 2.0), "request_blocks": 2,
        },
        "measure": { "requests": bench.size(1_000, 300_000, 1_000_000) },
    });
    tell(bench, report, "lab-timed-reclaim", &study, requests)
}

fn timed(bench: &Bench, report: &mut Report) -> Result<()> {
    let study = json!({
        "device": { "file": "mqsim-mlc", "nand": { "blocks_per_plane": bench.size(8, 256, 256) } },
        "drive": { "bytes": bench.size("64M", "8G", "8G") },
        "workload": { "synthetic": { "job": [{ "rw": "randrw", "bs": "8k", "iodepth": 16 }] } },
        "precondition": { "fill": 1.0 },
        "measure": { "requests": bench.size(1_000, 300_000, 1_000_000) },
    });
    tell(bench, report, "lab-timed", &study, requests)
}

fn untimed(bench: &Bench, report: &mut Report) -> Result<()> {
    let study = json!({
        "device": { "file": "disksim-ssd", "nand": { "blocks_per_plane": bench.size(32, 256, 256) } },
        "drive": { "over_provisioning": 0.25 },
        "workload": { "synthetic": { "job": [{ "rw": "randwrite", "bs": "4k" }] } },
        "precondition": { "fill": 1.0, "overwrites": bench.size(0.0, 2.0, 2.0) },
        "measure": { "timed": false, "drive_writes": bench.size(0.05, 0.5, 2.0) },
    });
    tell(bench, report, "lab-untimed", &study, |run| run.blocks / run.seconds / 1e6)
}

fn memory(bench: &Bench, report: &mut Report) -> Result<()> {
    let study = json!({
        "device": {
            "file": "disksim-ssd", "nand": { "blocks_per_plane": bench.size(32, 512, 2048) },
        },
        "drive": { "over_provisioning": 0.15 },
        "workload": { "synthetic": { "job": [{ "rw": "randwrite", "bs": "4k" }] } },
        "precondition": { "fill": 1.0 },
        "measure": { "timed": false, "drive_writes": bench.size(0.05, 1.0, 1.0) },
    });
    let run = simulate(&study)?;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    // A smaller drive's figure stands for that of one of 32 GiB.
    let times = bench.size(64.0, 4.0, 1.0);
    let text = format!(
        "{:.1} MiB for a drive of {:.1} GiB; at the end the engine {:.1} MiB, what lies on NAND \
         {:.1} MiB",
        mib(run.peak_bytes as f64),
        run.drive_bytes / f64::from(1 << 30),
        mib(run.engine_bytes),
        mib(run.nand_bytes),
    );
    report.line("lab-memory-32g", &Samples::one(times * mib(run.peak_bytes as f64)), &text);
    Ok(())
}
