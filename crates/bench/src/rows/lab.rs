//! The lab: how fast the engine is simulated, and in how much memory.

use anyhow::{Result, anyhow};
use mjolnir_lab::study::{self, Measured, Study};
use serde_json::{Value, json};

use crate::clock::Timer;
use crate::heap;
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
            what: "the most memory in use while a 32 GiB drive is simulated, oracle off, by the \
                   allocator's count (DiskSim: 103 MiB)",
            unit: "MiB",
            target: Target::Most(100.0),
        }],
        run: memory,
    },
];

/// The share of a run that is called done when the measured part begins.
const MEASURED_FROM: f64 = 0.3;

/// What one run came to.
struct Run {
    measured: Measured,
    /// Processor seconds, preconditioning not counted.
    seconds: f64,
    /// The most that the allocator was asked for, beyond what was in use before.
    peak_bytes: usize,
}

fn simulate(study: &Value) -> Result<Run> {
    let study: Study = serde_json::from_value(study.clone())?;
    let before = heap::bytes();
    let (mut timer, mut peak) = (Timer::start(), before);
    let mut begun = false;
    let mut note = |share: f64| {
        if share >= MEASURED_FROM && !std::mem::replace(&mut begun, share >= MEASURED_FROM) {
            timer = Timer::start();
        }
        peak = peak.max(heap::bytes());
        true
    };
    let measured = study::run(&study, 1, &mut note).map_err(|why| anyhow!(why))?;
    let seconds = timer.took().process_s;
    Ok(Run { measured, seconds, peak_bytes: peak - before })
}

fn note(run: &Run) -> String {
    let written = &run.measured.written;
    format!(
        "{} requests in {:.2} s; WAF {:.2}, of data {:.2} (last round)",
        run.measured.requests,
        run.seconds,
        written.waf(),
        written.data_waf()
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
    run.measured.requests as f64 / run.seconds / 1e3
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
    tell(bench, report, "lab-untimed", &study, |run| {
        run.measured.written.total_blocks() / run.seconds / 1e6
    })
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
    let number = |name: &str| run.measured.outcome.numbers.get(name).copied().unwrap_or(0.0);
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    // A smaller drive's figure stands for that of one of 32 GiB.
    let times = bench.size(64.0, 4.0, 1.0);
    let text = format!(
        "{:.1} MiB for a drive of {:.1} GiB; at the end the engine {:.1} MiB, what lies on NAND \
         {:.1} MiB",
        mib(run.peak_bytes as f64),
        number("drive_bytes") / f64::from(1 << 30),
        mib(number("engine_memory_bytes")),
        mib(number("drive_memory_bytes")),
    );
    report.line("lab-memory-32g", &Samples::one(times * mib(run.peak_bytes as f64)), &text);
    Ok(())
}
