//! A store that is overwritten at random for long, reclaim at work: how even it is, and what it
//! writes.

use std::time::Duration;

use anyhow::Result;
use mjolnir_device::filter::{Delay, DelayOptions};
use mjolnir_device::{AnyDevice, Device, Runtime};
use mjolnir_engine::{Engine, OpenOptions};
use mjolnir_host::HostRuntime;
use mjolnir_machine::RamDevice;
use mjolnir_policy::closed_form;
use mjolnir_units::{BLOCK_SIZE, TreeId};

use super::size_text;
use crate::load::{self, Load, Windows};
use crate::report::Report;
use crate::samples::{Latencies, Samples};
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, blocks, fresh, in_memory, on_disk};

pub const ROWS: &[Row] = &[
    Row {
        name: "steady",
        needs: &[],
        lines: &[
            Line {
                name: "steady-panics",
                what: "steady 4 KiB random overwrite at 80 % utilization, reclaim at work, on an \
                       in-memory device held to a fixed rate: panic entries",
                unit: "",
                target: Target::Most(0.0),
            },
            Line {
                name: "steady-worst-window",
                what: "the same: throughput of the worst 100 ms window against the mean",
                unit: "x",
                target: Target::Least(0.5),
            },
            Line {
                name: "steady-p999",
                what: "the same: p99.9 against 40 % utilization, writes arriving at the same rate",
                unit: "x",
                target: Target::Most(3.0),
            },
            Line {
                name: "steady-p999-closed",
                what: "the same with 32 writes always in flight, as fast as each store takes them",
                unit: "x",
                target: Target::None,
            },
        ],
        run: in_memory_at_a_rate,
    },
    Row {
        name: "steady-disk",
        needs: &[],
        lines: &[
            Line {
                name: "steady-disk-panics",
                what: "steady 4 KiB random overwrite at 80 % utilization on disk: panic entries",
                unit: "",
                target: Target::None,
            },
            Line {
                name: "steady-disk-worst-window",
                what: "the same: throughput of the worst 100 ms window against the mean",
                unit: "x",
                target: Target::None,
            },
            Line {
                name: "steady-disk-p999",
                what: "the same: p99.9 against 40 % utilization, writes arriving at the same rate",
                unit: "x",
                target: Target::None,
            },
        ],
        run: at_the_disks_rate,
    },
    Row {
        name: "waf",
        needs: &[],
        lines: &[
            Line {
                name: "waf-15",
                what: "write amplification of a steady uniform overwrite at spare 0.15, against \
                       the closed form for greedy reclaim (3.508 with segments of 1,024 blocks)",
                unit: "x",
                target: Target::None,
            },
            Line {
                name: "waf-28",
                what: "write amplification of a steady uniform overwrite at spare 0.28, against \
                       the closed form for greedy reclaim (1.989 with segments of 1,024 blocks)",
                unit: "x",
                target: Target::None,
            },
        ],
        run: amplification,
    },
];

/// How a store is brought to its steady state, and watched there.
struct Plan {
    /// Bytes of the volume.
    span: u64,
    /// Random overwrites before anything counts, in volumes.
    warm: f64,
    /// How long to watch.
    time: Duration,
    seed: u64,
}

/// A store in its steady state.
struct Steady<D: Device, R: Runtime> {
    store: Engine<D, R>,
    volume: TreeId,
    plan: Plan,
}

/// What was seen at a closed loop.
struct Watched {
    windows: Windows,
    panics: u64,
    amplification: f64,
}

impl<D: Device, R: Runtime> Steady<D, R> {
    async fn reach(store: Engine<D, R>, plan: Plan) -> Result<Self> {
        let volume = store.create_volume("v", plan.span).await?.id;
        load::run(&store, volume, Load::fill(plan.span)).await?;
        let count = (blocks(plan.span) as f64 * plan.warm) as u64;
        load::run(&store, volume, Load::random_writes(plan.span, count, plan.seed)).await?;
        Ok(Steady { store, volume, plan })
    }

    fn load(&self, count: u64) -> Load {
        Load::random_writes(self.plan.span, count, self.plan.seed + 1)
    }

    /// 32 in flight.
    async fn watch(&self) -> Result<Watched> {
        let before = self.store.stats();
        let windows =
            load::for_time(&self.store, self.volume, self.load(0), self.plan.time).await?;
        let after = self.store.stats();
        let accepted = after.accepted_write_bytes - before.accepted_write_bytes;
        let written = after.device_write_bytes - before.device_write_bytes;
        Ok(Watched {
            windows,
            panics: after.panics - before.panics,
            amplification: written as f64 / accepted as f64,
        })
    }

    /// Arriving at a rate; how long each write waited.
    async fn arrive(&self, runtime: &R, rate: f64) -> Result<Latencies> {
        let count = (rate * self.plan.time.as_secs_f64()) as u64;
        let load = Load { depth: 256, ..self.load(count) };
        Ok(load::arrivals(&self.store, runtime, self.volume, load, rate).await?.latencies)
    }
}

/// The part of what 80 % utilization sustains at which writes arrive.
const ARRIVING: f64 = 0.7;

/// What both utilizations gave in each round.
#[derive(Default)]
struct Compared {
    panics: Samples,
    worst: Samples,
    arriving: Samples,
    closed: Samples,
    notes: Vec<String>,
}

impl Compared {
    /// A round: `make` gives a new device for each store.
    async fn round<D: Device, R: Runtime>(
        &mut self,
        runtime: &R,
        store: impl AsyncFn() -> Result<Engine<D, R>>,
        plan: impl Fn(f64) -> Plan,
    ) -> Result<()> {
        let full = Steady::reach(store().await?, plan(0.8)).await?;
        let watched = full.watch().await?;
        let rate = watched.windows.seen.rate();
        let late_full = full.arrive(runtime, rate * ARRIVING).await?;
        full.store.close().await?;
        drop(full);
        let half = Steady::reach(store().await?, plan(0.4)).await?;
        let late_half = half.arrive(runtime, rate * ARRIVING).await?;
        let watched_half = half.watch().await?;
        half.store.close().await?;
        let p999 = |latencies: &Latencies| latencies.quantile_us(0.999);
        self.panics.push(watched.panics as f64);
        self.worst.push(watched.windows.worst());
        self.arriving.push(p999(&late_full) / p999(&late_half));
        let (full, half) = (&watched.windows.seen, &watched_half.windows.seen);
        self.closed.push(p999(&full.latencies) / p999(&half.latencies));
        self.notes = vec![
            format!(
                "80 %: {:.0} writes/s, {}, {:.2} written for each accepted; 40 %: {:.0} writes/s, \
                 {}, {:.2}",
                full.rate(),
                full.latencies.text(),
                watched.amplification,
                half.rate(),
                half.latencies.text(),
                watched_half.amplification,
            ),
            format!(
                "arriving at {:.0} a second: 80 %: {}; 40 %: {} (last round)",
                rate * ARRIVING,
                late_full.text(),
                late_half.text()
            ),
        ];
        Ok(())
    }
}

fn plan(bench: &Bench, device_bytes: u64, seed: u64) -> impl Fn(f64) -> Plan {
    let time =
        bench.size(Duration::from_millis(300), Duration::from_secs(4), Duration::from_secs(20));
    let warm = bench.size(0.5, 1.5, 2.0);
    move |utilization: f64| Plan {
        span: (device_bytes as f64 * utilization) as u64 / MIB * MIB,
        warm,
        time,
        seed,
    }
}

fn in_memory_at_a_rate(bench: &Bench, report: &mut Report) -> Result<()> {
    let (zones, zone_blocks) = (256, bench.size(64, blocks(2 * MIB), blocks(16 * MIB)));
    let device_bytes = zones * zone_blocks * BLOCK_SIZE;
    let rate = bench.size(4 * GIB, 400 * MIB, 400 * MIB);
    let memory = RamDevice::of_zones(zones as u32, zone_blocks).touched();
    let mut compared = Compared::default();
    for round in 0..bench.rounds.min(bench.size(1, 1, 3)) as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| {
            let store = async || {
                let options =
                    DelayOptions { bytes_per_second: Some(rate), ..DelayOptions::default() };
                memory.renew();
                let delayed = || Delay::new(memory.clone(), runtime.clone(), options);
                let device = || AnyDevice::new(delayed());
                fresh(device, &runtime, OpenOptions::default()).await
            };
            compared.round(&runtime, store, plan(bench, device_bytes, round)).await
        })?;
    }
    let note = format!(
        "{} at {} a second; {}",
        size_text(device_bytes),
        size_text(rate),
        compared.notes.join("; ")
    );
    report.line("steady-panics", &compared.panics, &note);
    report.line("steady-worst-window", &compared.worst, "");
    report.line("steady-p999", &compared.arriving, "");
    report.line("steady-p999-closed", &compared.closed, "");
    Ok(())
}

fn at_the_disks_rate(bench: &Bench, report: &mut Report) -> Result<()> {
    let bytes = bench.size(64 * MIB, GIB, 8 * GIB);
    let path = bench.place.file("steady.mj");
    let mut compared = Compared::default();
    for round in 0..bench.rounds.min(bench.size(1, 1, 3)) as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| {
            let store =
                async || on_disk(&path, bytes, None, &runtime, OpenOptions::default()).await;
            compared.round(&runtime, store, plan(bench, bytes, round)).await
        })?;
    }
    let note = format!("{} store; {}", size_text(bytes), compared.notes.join("; "));
    report.line("steady-disk-panics", &compared.panics, &note);
    report.line("steady-disk-worst-window", &compared.worst, "");
    report.line("steady-disk-p999", &compared.arriving, "");
    Ok(())
}

fn amplification(bench: &Bench, report: &mut Report) -> Result<()> {
    let (zones, zone_blocks) = bench.size((96, 64), (1024, 256), (1024, 1024));
    let device_bytes = u64::from(zones) * zone_blocks * BLOCK_SIZE;
    let device = RamDevice::of_zones(zones, zone_blocks).touched();
    for (name, spare) in [("waf-15", 0.15), ("waf-28", 0.28)] {
        let expected = closed_form::greedy(spare, zone_blocks as f64);
        let (mut ratio, mut note) = (Samples::new(), String::new());
        for round in 0..bench.rounds.min(bench.size(1, 1, 3)) as u64 {
            mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
                let options = OpenOptions::default();
                let store = in_memory(&device, &runtime, options).await?;
                let span = (device_bytes as f64 * (1.0 - spare)) as u64 / BLOCK_SIZE * BLOCK_SIZE;
                let volume = store.create_volume("v", span).await?.id;
                load::run(&store, volume, Load { bytes: BLOCK_SIZE, ..Load::fill(span) }).await?;
                let count = (blocks(span) as f64 * bench.size(0.3, 3.0, 6.0)) as u64;
                load::run(&store, volume, Load::random_writes(span, count, round)).await?;
                let before = store.stats();
                let count = (blocks(span) as f64 * bench.size(0.3, 1.0, 3.0)) as u64;
                load::run(&store, volume, Load::random_writes(span, count, round + 50)).await?;
                let after = store.stats();
                let host = after.accepted_write_bytes - before.accepted_write_bytes;
                let moved = after.moved_bytes - before.moved_bytes;
                let media = after.device_write_bytes - before.device_write_bytes;
                let payload = (host + moved) as f64 / host as f64;
                ratio.push(payload / expected);
                note = format!(
                    "{} blocks written by clients, {} moved: {payload:.3}; all writes to media \
                     with headers and map: {} ({:.3}); kept free as a reserve: {:.1} % of {}",
                    host / BLOCK_SIZE,
                    moved / BLOCK_SIZE,
                    media / BLOCK_SIZE,
                    media as f64 / host as f64,
                    100.0 * after.space.reserved_bytes as f64 / after.space.total_bytes as f64,
                    size_text(device_bytes),
                );
                store.close().await?;
                Ok(())
            })?;
        }
        report.line(name, &ratio, &note);
    }
    Ok(())
}
