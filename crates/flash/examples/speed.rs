//! How fast drives are simulated, and in how much memory.
//!
//! ```text
//! cargo run --release -p mjolnir-flash --example speed [million requests]
//! ```
//!
//! Requests per second of this process's processor time; preconditioning is not counted. What is
//! simulated are the cases for which peers' figures are known.

use mjolnir_flash::ftl::{Overwrites, Precondition};
use mjolnir_flash::{Device, Request, RequestKind, Ssd};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

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

struct Case {
    name: &'static str,
    device: Device,
    fill: f64,
    overwrites: Overwrites,
    kind: RequestKind,
    request_bytes: u64,
    /// Part of the drive that requests go to.
    span: f64,
    gap_ns: u64,
}

fn run(case: Case, requests: u64) {
    let mut ssd = Ssd::new(&case.device, 1).unwrap_or_else(|error| panic!("{error}"));
    let how = Precondition { fill: case.fill, overwrites: case.overwrites, seed: 1 };
    let before = cpu_seconds();
    let conditioned = ssd.ftl_mut().precondition(&how).unwrap_or_else(|error| panic!("{error}"));
    let conditioning = cpu_seconds() - before;
    let mut random = Pcg64Mcg::new(1);
    let slots = (ssd.bytes() as f64 * case.span) as u64 / case.request_bytes;
    let begin = cpu_seconds();
    let (mut now, mut sum_ns) = (0, 0);
    for _ in 0..requests {
        now += case.gap_ns;
        let slot = ((u128::from(random.next_u64()) * u128::from(slots)) >> 64) as u64;
        let request = Request {
            kind: case.kind,
            offset_bytes: slot * case.request_bytes,
            length_bytes: case.request_bytes,
        };
        let done = ssd.submit(now, request).unwrap_or_else(|error| panic!("{error}"));
        sum_ns += done.done_ns - now;
    }
    let seconds = cpu_seconds() - begin;
    let report = ssd.ftl().report();
    println!("{}", case.name);
    println!(
        "  {:.0} k requests per CPU-second; mean response {:.1} us; WAF {:.2}; {}",
        requests as f64 / seconds / 1e3,
        sum_ns as f64 / requests as f64 / 1e3,
        report.counts.waf(),
        report.reclaim
    );
    println!(
        "  tables {:.1} MiB, process so far at most {:.1} MiB; preconditioned with {} page writes \
         in {conditioning:.2} CPU-seconds",
        report.memory_bytes as f64 / f64::from(1 << 20),
        peak_mib(),
        conditioned.filled_pages + conditioned.overwritten_pages
    );
}

fn main() {
    let million = std::env::args().nth(1).and_then(|text| text.parse::<f64>().ok()).unwrap_or(3.0);
    let requests = (million * 1e6) as u64;
    let disksim = || Device::shipped("disksim-ssd").unwrap_or_else(|error| panic!("{error}"));
    let mqsim = |blocks_per_plane, over_provisioning, low_watermark| {
        let mut device = Device::shipped("mqsim-mlc").unwrap_or_else(|error| panic!("{error}"));
        device.nand.blocks_per_plane = blocks_per_plane;
        device.ftl.over_provisioning = over_provisioning;
        device.ftl.low_watermark = low_watermark;
        device
    };
    let (filled, steady) = (Overwrites::None, Overwrites::Uniform { times: 3.0 });
    let (read, write) = (RequestKind::Read, RequestKind::Write);
    for (name, device, overwrites, kind, request_bytes, span, gap_ns) in [
        (
            "DiskSim, 32 GiB, 4 KiB random writes to an eighth, reclaim when it begins",
            disksim(),
            filled,
            write,
            4096,
            0.125,
            200_000,
        ),
        ("DiskSim, 32 GiB, 4 KiB random reads", disksim(), filled, read, 4096, 1.0, 30_000),
        (
            "MQSim, 64 GiB, 8 KiB random reads",
            mqsim(256, 0.07, 0.02),
            filled,
            read,
            8192,
            1.0,
            10_000,
        ),
        (
            "MQSim, 64 GiB, 8 KiB random writes, no reclaim",
            mqsim(512, 0.5, 0.01),
            filled,
            write,
            8192,
            0.5,
            20_000,
        ),
        (
            "MQSim, 4 GiB, 8 KiB random writes, reclaim",
            mqsim(16, 0.32, 0.06),
            steady,
            write,
            8192,
            1.0,
            100_000,
        ),
    ] {
        let fill = 1.0;
        run(Case { name, device, fill, overwrites, kind, request_bytes, span, gap_ns }, requests);
    }
}
