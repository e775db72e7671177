//! Snapshots of a store on disk: making them, writing after them, deleting them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use mjolnir_device::Runtime;
use mjolnir_engine::OpenOptions;
use mjolnir_host::{HostRuntime, LocalStore};
use mjolnir_store::{Durability, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};

use super::{mib, size_text};
use crate::chance::Chance;
use crate::clock::Timer;
use crate::direct;
use crate::load::{self, Load, Pause};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, blocks, by_hand, on_disk};

pub const ROWS: &[Row] = &[
    Row {
        name: "snapshot-durable",
        needs: &[],
        lines: &[
            Line {
                name: "snapshot-durable",
                what: "2,000 durable snapshots with one 4 KiB write before each, against 2,000 \
                       durable 4 KiB writes",
                unit: "x",
                target: Target::Most(1.5),
            },
            Line {
                name: "snapshot-durable-last",
                what: "the same: the last hundred against the first hundred, after 400 durable writes",
                unit: "x",
                target: Target::Most(1.2),
            },
        ],
        run: durable,
    },
    Row {
        name: "write-after-snapshot",
        needs: &[],
        lines: &[Line {
            name: "write-after-snapshot",
            what: "4 KiB random write at queue depth 32 right after a snapshot, against the same \
                   without one (qcow2: 60 times slower)",
            unit: "x",
            target: Target::Least(0.8),
        }],
        run: right_after,
    },
    Row {
        name: "snapshot-delete",
        needs: &[],
        lines: &[
            Line {
                name: "snapshot-delete-gap",
                what: "deleting 2,000 diverged snapshots, 16 at a time: longest time without a completed client \
                       write meanwhile, against the same load without it",
                unit: "x",
                target: Target::Most(3.0),
            },
            Line {
                name: "snapshot-delete-space",
                what: "the same: time until 90 % of the space is back, against marking and a \
                       direct copy of all that stays, among which it lies",
                unit: "x",
                target: Target::Most(2.0),
            },
            Line {
                name: "snapshot-delete-space-held",
                what: "the same against marking and a direct copy of as much as the snapshots held",
                unit: "x",
                target: Target::None,
            },
        ],
        run: deletion,
    },
];

/// A store in a file with a volume `v` whose blocks are all written.
async fn filled(
    bench: &Bench,
    name: &str,
    runtime: &HostRuntime,
    bytes: u64,
    span: u64,
    options: OpenOptions,
) -> Result<(LocalStore, TreeId)> {
    let store = on_disk(&bench.place.file(name), bytes, None, runtime, options).await?;
    let volume = store.create_volume("v", span).await?.id;
    load::run(&store, volume, Load::fill(span)).await?;
    store.checkpoint().await?;
    Ok((store, volume))
}

fn durable(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(4 * MIB, 128 * MIB, 128 * MIB);
    let count = bench.size(40, 2000, 2000usize);
    let batch = count / 20;
    let (mut ratio, mut last, mut plain_last) = (Samples::new(), Samples::new(), Samples::new());
    let (mut of_snapshots, mut of_writes) = (Samples::new(), Samples::new());
    for round in 0..bench.rounds.min(bench.size(1, 3, 5)) as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
            let room = 8 * span + bench.size(64 * MIB, 512 * MIB, 512 * MIB);
            let options = by_hand();
            let (ours, with) =
                filled(bench, "snapshots.mj", &runtime, room, span, options.clone()).await?;
            let (plain, without) =
                filled(bench, "writes.mj", &runtime, room, span, options).await?;
            let (payload, mut chance) = (load::payload(BLOCK_SIZE), Chance::new(round));
            // Right after large writes a disk may be a third quicker for the first hundreds of
            // small ones, whoever writes: both stores leave that behind before the clock runs.
            for _ in 0..4 * batch {
                for (store, volume) in [(&ours, with), (&plain, without)] {
                    let offset = chance.below(blocks(span)) * BLOCK_SIZE;
                    store.write(volume, offset, payload.clone(), Durability::Durable).await?;
                }
            }
            let mut seconds: [Vec<f64>; 2] = Default::default();
            for number in 0..20 {
                let places: Vec<u64> =
                    (0..batch).map(|_| chance.below(blocks(span)) * BLOCK_SIZE).collect();
                let timer = Timer::start();
                for (index, offset) in places.iter().enumerate() {
                    ours.write(with, *offset, payload.clone(), Durability::Buffered).await?;
                    ours.create_snapshot("v", &format!("{number}-{index}")).await?;
                }
                seconds[0].push(timer.took().wall_s);
                let timer = Timer::start();
                for offset in places {
                    plain.write(without, offset, payload.clone(), Durability::Durable).await?;
                }
                seconds[1].push(timer.took().wall_s);
            }
            let [snapshots, writes] = seconds.each_ref().map(|list| list.iter().sum::<f64>());
            ratio.push(snapshots / writes);
            last.push(seconds[0][19] / seconds[0][0]);
            plain_last.push(seconds[1][19] / seconds[1][0]);
            of_snapshots.push(snapshots * 1e6 / count as f64);
            of_writes.push(writes * 1e6 / count as f64);
            ours.close().await?;
            plain.close().await?;
            Ok(())
        })?;
    }
    let note = format!(
        "{:.0} µs a snapshot with its write, {:.0} µs a durable write; volume {}",
        of_snapshots.median(),
        of_writes.median(),
        size_text(span)
    );
    report.line("snapshot-durable", &ratio, &note);
    let note = format!("the durable writes alone, in the same turns: {:.3}", plain_last.median());
    report.line("snapshot-durable-last", &last, &note);
    Ok(())
}

fn right_after(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(8 * MIB, 512 * MIB, 4 * GIB);
    let burst = bench.size(500, 16_384, 65_536u64);
    let (mut ratio, mut note) = (Samples::new(), String::new());
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let rounds = bench.rounds as u64;
        let room = 2 * span + 4 * rounds * burst * BLOCK_SIZE + bench.size(64 * MIB, GIB, GIB);
        let (ours, with) = filled(bench, "a.mj", &runtime, room, span, by_hand()).await?;
        let (plain, without) = filled(bench, "b.mj", &runtime, room, span, by_hand()).await?;
        for round in 0..rounds {
            let load = Load::random_writes(span, burst, round);
            // A burst before, so that both maps and both files are equally warm.
            let warm = Load::random_writes(span, burst, round + 100);
            load::run(&ours, with, warm).await?;
            ours.flush().await?;
            load::run(&plain, without, warm).await?;
            plain.flush().await?;
            let (mut after, mut before) = Default::default();
            for turn in 0..2 {
                if turn == round % 2 {
                    ours.create_snapshot("v", &round.to_string()).await?;
                    after = timed_burst(&ours, with, load).await?;
                } else {
                    before = timed_burst(&plain, without, load).await?;
                }
            }
            ratio.push(after.0 / before.0);
            note = format!(
                "right after: {:.1} k/s, {}; without: {:.1} k/s, {} (last round; {burst} writes \
                 and what is left of them written out, {} volume)",
                after.0 / 1e3,
                after.1,
                before.0 / 1e3,
                before.1,
                size_text(span)
            );
        }
        ours.close().await?;
        plain.close().await?;
        Ok(())
    })?;
    report.line("write-after-snapshot", &ratio, &note);
    Ok(())
}

/// Writes a second of a burst that ends with a flush, and its latencies.
async fn timed_burst(store: &LocalStore, volume: TreeId, load: Load) -> Result<(f64, String)> {
    let timer = Timer::start();
    let seen = load::run(store, volume, load).await?;
    store.flush().await?;
    Ok((load.count as f64 / timer.took().wall_s, seen.latencies.text()))
}

/// One client write every so often, two clients: a load that leaves the disk to others.
const PAUSE: Duration = Duration::from_millis(2);

fn deletion(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(16 * MIB, 256 * MIB, 2 * GIB);
    let snapshots = bench.size(20, 2000, 2000u64);
    let each = bench.size(40, 8, 100u64);
    let limit = Duration::from_secs(bench.size(2, 60, 300));
    let (mut gap, mut space) = (Samples::new(), Samples::new());
    let mut space_held = Samples::new();
    let mut notes = Vec::new();
    for round in 0..bench.rounds.min(bench.size(1, 2, 3)) as u64 {
        mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
            let held = snapshots * each * BLOCK_SIZE;
            // Each of these writes copies a leaf of the map, too.
            let map = snapshots * each.min(blocks(span) / 256) * 5000;
            let bytes = ((span + held + map) as f64 / 0.8) as u64 + 24 * MIB;
            let options = OpenOptions::default();
            let (store, volume) =
                filled(bench, "delete.mj", &runtime, bytes, span, options).await?;
            for number in 0..snapshots {
                let seed = 10_000 * round + number;
                let load = Load { depth: 1, ..Load::random_writes(span, each, seed) };
                load::run(&store, volume, load).await?;
                store.create_snapshot("v", &number.to_string()).await?;
            }
            store.checkpoint().await?;
            let before = store.stats();
            let wanted = before.space.free_bytes + held / 10 * 9;
            let clients = load::in_background(&store, &runtime, volume, span, 2, Pause::For(PAUSE));
            let begun = Instant::now();
            // A few at a time, as by a script: each is durable when it ends.
            let next = Cell::new(0);
            let deleter = async || {
                while next.get() < snapshots {
                    let number = next.replace(next.get() + 1);
                    store.delete_snapshot("v", &number.to_string()).await?;
                }
                Ok::<(), mjolnir_store::Error>(())
            };
            try_join_all((0..16).map(|_| deleter())).await?;
            let deleted = begun.elapsed();
            let free = || {
                let space = store.stats().space;
                // What the clients wrote meanwhile took its own room.
                space.free_bytes + clients.count() * BLOCK_SIZE
            };
            while free() < wanted && begun.elapsed() < limit {
                runtime.sleep(Duration::from_millis(5)).await;
            }
            let reached = free() >= wanted;
            let back = begun.elapsed();
            let meanwhile = clients.end(&runtime).await?;
            let after = store.stats();
            // The same load for as long, without the deletion.
            let clients = load::in_background(&store, &runtime, volume, span, 2, Pause::For(PAUSE));
            runtime.sleep(back).await;
            let alone = clients.end(&runtime).await?;
            let cycles = (after.reclaim_cycles - before.reclaim_cycles).max(1);
            let mark_s = (after.scan_cpu_ns - before.scan_cpu_ns) as f64 / 1e9 / cycles as f64;
            let moved = after.moved_bytes - before.moved_bytes;
            store.close().await?;
            ensure!(meanwhile.count > 0 && alone.count > 0, "no client write completed");
            let source = bench.place.file("delete.mj");
            let copy = bench.place.file("copy");
            let copy_s = direct::copy(&source, MIB, &copy, span, 2 * MIB, 4)?;
            gap.push(meanwhile.gap_s / alone.gap_s);
            space.push(back.as_secs_f64() / (mark_s + copy_s));
            // As if nothing lived beside what was deleted.
            let held_s = copy_s * held as f64 / span as f64;
            space_held.push(back.as_secs_f64() / (mark_s + held_s));
            notes.push(format!(
                "{:.0} ms to delete, {}{:.0} ms until 90 % of {} was back, {} moved; a mark \
                 {:.0} ms, a direct copy of the volume's {}: {:.0} ms; longest gap {:.1} ms, \
                 without {:.1} ms",
                deleted.as_secs_f64() * 1e3,
                if reached { "" } else { "NOT WITHIN " },
                back.as_secs_f64() * 1e3,
                mib(held),
                mib(moved),
                mark_s * 1e3,
                size_text(span),
                copy_s * 1e3,
                meanwhile.gap_s * 1e3,
                alone.gap_s * 1e3,
            ));
            Ok(())
        })?;
    }
    let note = notes.last().map_or("", String::as_str);
    report.line("snapshot-delete-gap", &gap, note);
    report.line("snapshot-delete-space", &space, "");
    report.line("snapshot-delete-space-held", &space_held, "");
    Ok(())
}
