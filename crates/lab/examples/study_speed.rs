//! How fast the engine is simulated, and in how much memory.
//!
//! ```text
//! cargo run --release -p mjolnir-lab --example study_speed [part of the case's name]
//! ```
//!
//! Per second of this process's processor time; preconditioning is not counted.

use mjolnir_lab::study::{self, Study};

/// Processor seconds that this process has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call fills in.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "there is no clock of processor time");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak memory of this process in MiB, where the system tells it.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

const CASES: [(&str, &str); 5] = [
    (
        "untimed: 4 GiB, 4 KiB uniform overwrites, over-provisioning 0.25",
        r#"
        device = { file = "disksim-ssd", nand = { blocks_per_plane = 256 } }
        drive = { over_provisioning = 0.25 }
        workload.synthetic.job = [{ rw = "randwrite", bs = "4k" }]
        precondition = { fill = 1.0, overwrites = 2.0 }
        measure = { timed = false, drive_writes = 2.0 }"#,
    ),
    (
        "untimed: 4 GiB, 4 KiB Zipf overwrites, over-provisioning 0.25",
        r#"
        device = { file = "disksim-ssd", nand = { blocks_per_plane = 256 } }
        drive = { over_provisioning = 0.25 }
        workload.synthetic.job = [{ rw = "randwrite", bs = "4k", random_distribution = "zipf:1.0" }]
        precondition = { fill = 1.0, overwrites = 1.0 }
        measure = { timed = false, drive_writes = 2.0 }"#,
    ),
    (
        "timed: MQSim's drive cut to 4 GiB, 8 KiB random writes with reclaim",
        r#"
        device = { file = "mqsim-mlc", nand = { blocks_per_plane = 16 } }
        drive = { over_provisioning = 0.32 }
        workload.synthetic.job = [{ rw = "randwrite", bs = "8k", iodepth = 16 }]
        precondition = { fill = 1.0, overwrites = 2.0, request_blocks = 2 }
        measure = { requests = 1000000 }"#,
    ),
    (
        "timed: MQSim's drive cut to 64 GiB, 8 KiB random reads and writes, no reclaim",
        r#"
        device = { file = "mqsim-mlc", nand = { blocks_per_plane = 256 } }
        drive = { bytes = "8G" }
        workload.synthetic.job = [{ rw = "randrw", bs = "8k", iodepth = 16 }]
        precondition = { fill = 1.0 }
        measure = { requests = 1000000 }"#,
    ),
    (
        "memory: DiskSim's drive, 32 GiB, 4 KiB random overwrites of all of it",
        r#"
        device = { file = "disksim-ssd" }
        drive = { over_provisioning = 0.15 }
        workload.synthetic.job = [{ rw = "randwrite", bs = "4k" }]
        precondition = { fill = 1.0 }
        measure = { timed = false, drive_writes = 1.0 }"#,
    ),
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, text) in CASES.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let study: Study = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut measuring_from, start) = (None, cpu_seconds());
        let mut note = |share: f64| {
            if share >= 0.3 && measuring_from.is_none() {
                measuring_from = Some(cpu_seconds());
            }
            true
        };
        let measured = study::run(&study, 1, &mut note).unwrap_or_else(|error| panic!("{error}"));
        let from = measuring_from.unwrap_or(start);
        let seconds = cpu_seconds() - from;
        let written = measured.written;
        println!("{name}");
        println!(
            "  {:.0} k requests, {:.2} M block writes per CPU-second ({seconds:.2} s; before that \
             {:.2} s); WAF {:.3}, of data {:.3}",
            measured.requests as f64 / seconds / 1e3,
            written.total_blocks() / seconds / 1e6,
            from - start,
            written.waf(),
            written.data_waf(),
        );
        let mib = |name: &str| {
            measured.outcome.numbers.get(name).copied().unwrap_or(0.0) / f64::from(1 << 20)
        };
        println!(
            "  engine {:.1} MiB (map {:.1}, its table {:.1}, checksums {:.1}), drive {:.1} MiB, \
             process so far at most {:.1} MiB",
            mib("engine_memory_bytes"),
            mib("map_bytes"),
            mib("map_table_bytes"),
            mib("checksum_bytes"),
            mib("drive_memory_bytes"),
            peak_mib()
        );
        for note in &measured.outcome.notes {
            println!("  {note}");
        }
        for name in [
            "panics",
            "room_waits",
            "checkpoints",
            "reclaim_cycles",
            "victims",
            "mappings_scanned",
            "map_written_blocks",
            "write_mean_us",
            "requests_per_s",
            "data_segments_payload_mean_blocks",
            "scan_cpu_ms",
        ] {
            if let Some(value) = measured.outcome.numbers.get(name) {
                print!("  {name} {value:.1}");
            }
        }
        println!();
    }
}
