//! `disksim-validation`: the runs with which DiskSim's SSD extension was published, on its device
//! and under its arrivals. The head of `mjolnir-flash` explains each figure.

use mjolnir_experiment::parse_configuration;
use mjolnir_experiment::{Kind, Outcome, Series};
use mjolnir_flash::controller::Latencies;
use mjolnir_flash::ftl::{Overwrites, Precondition};
use mjolnir_flash::{Device, RequestKind, Ssd, ValidationLoad};
use serde::Deserialize;
use toml::Table;

/// Points of the course.
const COURSE_POINTS: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Operation {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Sequential,
    Random,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    device: String,
    run: RunKind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunKind {
    operation: Operation,
    order: Order,
    requests: u64,
}

pub(super) struct DiskSim;

impl Kind for DiskSim {
    fn name(&self) -> &'static str {
        "disksim-validation"
    }

    fn check(&self, configuration: &Table) -> Result<(), String> {
        let Configuration { device, run } = parse_configuration(configuration)?;
        let device = Device::shipped(&device).map_err(|error| format!("device: {error}"))?;
        if device.logical_bytes() < 2 * ValidationLoad::BYTES {
            let name = &device.name;
            return Err(format!("device = {name:?}: it has less room than these runs address"));
        }
        match (1..=100_000_000).contains(&run.requests) {
            true => Ok(()),
            false => Err(format!("run.requests = {}: write from 1 to 100 million", run.requests)),
        }
    }

    fn run(
        &self,
        configuration: &Table,
        seed: u64,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let Configuration { device, run } = parse_configuration(configuration)?;
        let RunKind { operation, order, requests } = run;
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let device = Device::shipped(&device).map_err(|error| words(&error))?;
        let mut ssd = Ssd::new(&device, seed).map_err(|error| words(&error))?;
        // There every logical page is mapped at the start.
        let full = Precondition { fill: 1.0, overwrites: Overwrites::None, seed: 0 };
        ssd.ftl_mut().precondition(&full).map_err(|error| words(&error))?;
        let mut latencies = Latencies::default();
        let window = (requests / COURSE_POINTS).max(1);
        let (mut course, mut sum_ns) = (Vec::new(), 0);
        let kind = match operation {
            Operation::Read => RequestKind::Read,
            Operation::Write => RequestKind::Write,
        };
        let load = ValidationLoad::new(kind, order == Order::Sequential, seed);
        for (number, (now_ns, request)) in (0..requests).zip(load) {
            if number % 4096 == 0 && !progress(number as f64 / requests as f64) {
                return Err("told to stop".to_owned());
            }
            let done = ssd.submit(now_ns, request).map_err(|error| words(&error))?;
            let latency_ns = done.done_ns - now_ns;
            latencies.add(latency_ns);
            sum_ns += latency_ns;
            if (number + 1) % window == 0 {
                course.push((now_ns as f64 / 1e9, sum_ns as f64 / window as f64 / 1e6));
                sum_ns = 0;
            }
        }
        let mut outcome = Outcome::default();
        let mut put = |name: &str, number: f64| outcome.numbers.insert(name.to_owned(), number);
        put("response_mean_ms", latencies.mean_ns() / 1e6);
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)] {
            put(&format!("response_{name}_ms"), latencies.percentile_ns(share) as f64 / 1e6);
        }
        put("response_max_ms", latencies.max_ns() as f64 / 1e6);
        let counts = ssd.ftl().counts();
        let dies = f64::from(device.nand.dies());
        put("cleans_per_element", counts.victims as f64 / dies);
        put("moved_pages_per_element", counts.reclaim_pages as f64 / dies);
        if operation == Operation::Write {
            put("waf", counts.waf());
            outcome.notes.push(ssd.ftl().report().reclaim.to_string());
        }
        let (x, y) = ("time_s".to_owned(), "response_mean_ms".to_owned());
        outcome.series.insert("response_mean".to_owned(), Series { x, y, points: course });
        Ok(outcome)
    }
}
