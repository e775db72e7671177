//! How even a store in a file is for its clients while reclaim works: courses over time.

use std::time::{Duration, Instant};

use anyhow::Result;
use mjolnir_device::Runtime;
use mjolnir_engine::OpenOptions;
use mjolnir_host::HostRuntime;

use super::size_text;
use crate::load::{self, Load, Pause};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Course, Line, Row, Target};
use crate::world::{GIB, MIB, blocks, on_disk};

pub const ROWS: &[Row] = &[Row {
    name: "pacing-real",
    needs: &[],
    lines: &[Line {
        name: "pacing-real",
        what: "steady 4 KiB random overwrite of a file at 80 % utilization, ten minutes at --full: \
               client bandwidth of the worst twentieth of the time against the mean; --json adds \
               the courses of bandwidths, reclaim's share and free segments, --plots draws them",
        unit: "x",
        target: Target::None,
    }],
    run: pacing,
}];

/// What each look finds.
const COURSES: &[Course] = &[
    Course {
        column: "client_mib_per_s",
        plot: "bandwidth",
        title: "What clients write",
        y_label: "Client bandwidth (MiB/s)",
    },
    Course {
        column: "reclaim_mib_per_s",
        plot: "reclaim",
        title: "What reclaim writes",
        y_label: "Reclaim's bandwidth (MiB/s)",
    },
    Course {
        column: "reclaim_share",
        plot: "share",
        title: "Reclaim's share of all data written",
        y_label: "Share",
    },
    Course {
        column: "free_share",
        plot: "free",
        title: "Free segments",
        y_label: "Share of segments that are free",
    },
];

/// Looks in each run.
const POINTS: u32 = 300;

fn pacing(bench: &Bench, report: &mut Report) -> Result<()> {
    let bytes = bench.size(64 * MIB, GIB, 8 * GIB);
    let time =
        bench.size(Duration::from_millis(600), Duration::from_secs(20), Duration::from_secs(600));
    let path = bench.place.file("pacing.mj");
    let (mut rates, mut points, mut latencies) = (Vec::new(), Vec::new(), String::new());
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let store = on_disk(&path, bytes, None, &runtime, OpenOptions::default()).await?;
        let span = (bytes as f64 * 0.8) as u64 / MIB * MIB;
        let volume = store.create_volume("v", span).await?.id;
        load::run(&store, volume, Load::fill(span)).await?;
        let warm = (blocks(span) as f64 * bench.size(0.2, 1.5, 2.0)) as u64;
        load::run(&store, volume, Load::random_writes(span, warm, 1)).await?;
        let begun = Instant::now();
        let clients = load::in_background(&store, &runtime, volume, span, 32, Pause::None);
        let mut last = (0.0, store.stats());
        while begun.elapsed() < time {
            runtime.sleep(time / POINTS).await;
            let (at, stats) = (begun.elapsed().as_secs_f64(), store.stats());
            let mib = |now: u64, before: u64| (now - before) as f64 / MIB as f64 / (at - last.0);
            let client = mib(stats.accepted_write_bytes, last.1.accepted_write_bytes);
            let reclaim = mib(stats.moved_bytes, last.1.moved_bytes);
            let share = if client + reclaim > 0.0 { reclaim / (client + reclaim) } else { 0.0 };
            rates.push(client);
            points.push(vec![at, client, reclaim, share, 1.0 - stats.space.utilization]);
            last = (at, stats);
        }
        latencies = clients.end(&runtime).await?.latencies.text();
        store.close().await?;
        Ok(())
    })?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    rates.sort_by(f64::total_cmp);
    let note = format!(
        "{} store, {} s; clients {mean:.1} MiB/s in the mean, {:.1} at the least; \
         {latencies}",
        size_text(bytes),
        time.as_secs(),
        rates.first().copied().unwrap_or(f64::NAN),
    );
    let worst = rates.get(rates.len() / 20).copied().unwrap_or(f64::NAN);
    report.line("pacing-real", &Samples::one(worst / mean), &note);
    report.courses("pacing-real", COURSES, &points)
}
