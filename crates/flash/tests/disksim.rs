//! The response times that DiskSim's SSD extension publishes with its validation runs, on its
//! device and under its arrival process. The crate's head explains where each figure comes from.

use mjolnir_flash::controller::Latencies;
use mjolnir_flash::ftl::{Overwrites, Precondition};
use mjolnir_flash::{Device, RequestKind, Ssd, ValidationLoad};

struct Outcome {
    mean_ms: f64,
    ssd: Ssd,
}

fn run(kind: RequestKind, sequential: bool, requests: u64, seed: u64) -> Outcome {
    let device = Device::shipped("disksim-ssd").unwrap();
    let mut ssd = Ssd::new(&device, seed).unwrap();
    // There every logical page is mapped at the start.
    let full = Precondition { fill: 1.0, overwrites: Overwrites::None, seed: 0 };
    ssd.ftl_mut().precondition(&full).unwrap();
    let mut latencies = Latencies::default();
    let load = ValidationLoad::new(kind, sequential, seed);
    for (now_ns, request) in load.take(requests as usize) {
        latencies.add(ssd.submit(now_ns, request).unwrap().done_ns - now_ns);
    }
    Outcome { mean_ms: latencies.mean_ns() / 1e6, ssd }
}

fn compare(kind: RequestKind, sequential: bool, requests: u64, published: f64, within: f64) -> Ssd {
    let outcome = run(kind, sequential, requests, 42);
    let off = outcome.mean_ms / published - 1.0;
    let order = if sequential { "sequential" } else { "random" };
    println!(
        "{requests} {order} {kind:?}: {:.6} ms, published {published} ms, {:+.2} %",
        outcome.mean_ms,
        off * 100.0
    );
    println!("{}", outcome.ssd.ftl().report().reclaim);
    assert!(off.abs() < within, "{order} {kind:?}: {} ms", outcome.mean_ms);
    outcome.ssd
}

#[test]
fn sequential_reads_take_132_microseconds() {
    compare(RequestKind::Read, true, 250_000, 0.132511, 0.005);
}

#[test]
fn sequential_writes_take_310_microseconds() {
    compare(RequestKind::Write, true, 250_000, 0.310895, 0.005);
}

#[test]
fn random_reads_take_136_microseconds() {
    compare(RequestKind::Read, false, 250_000, 0.136118, 0.01);
}

#[test]
fn random_writes_take_329_microseconds() {
    compare(RequestKind::Write, false, 250_000, 0.329458, 0.01);
}

/// With cleaning: 17,891 cleans of the first element, and 240,844 pages moved in them.
#[test]
fn five_million_random_writes_with_cleaning_take_593_microseconds() {
    let ssd = compare(RequestKind::Write, false, 5_000_000, 0.593438, 0.03);
    let counts = ssd.ftl().counts();
    let (cleans, moved) = (counts.victims as f64 / 8.0, counts.reclaim_pages as f64 / 8.0);
    println!("{cleans} cleans an element, {moved} pages moved");
    assert!((cleans / 17_891.0 - 1.0).abs() < 0.02, "{cleans} cleans an element");
    assert!((moved / 240_844.0 - 1.0).abs() < 0.03, "{moved} pages moved an element");
}
