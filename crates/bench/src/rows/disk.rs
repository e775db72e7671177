//! A store on disk against the disk alone, and against itself under other conditions.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use mjolnir_device::{AlignedBuf, Device, Runtime};
use mjolnir_engine::{Engine, FormatOptions, OpenOptions};
use mjolnir_host::{HostRuntime, NewStore, create_store};
use mjolnir_store::{Durability, Store};
use mjolnir_units::BLOCK_SIZE;

use super::{mib, size_text};
use crate::chance::Shuffle;
use crate::clock::Timer;
use crate::direct;
use crate::load::{self, Load, Pause};
use crate::report::Report;
use crate::samples::Samples;
use crate::sparse;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, KIB, MIB, blocks, by_hand, on_disk, reopen, roomy, shut};

pub const ROWS: &[Row] = &[
    Row {
        name: "reclaim-rate",
        needs: &[],
        lines: &[
            Line {
                name: "reclaim-rate",
                what: "reclaim throughput, bytes moved a second, all live data, written in order: \
                       against copying the same bytes with direct I/O on the same disk, 4 \
                       requests of 2 MiB at a time",
                unit: "x",
                target: Target::Least(0.8),
            },
            Line {
                name: "reclaim-rate-random",
                what: "the same for data written as single blocks in random order",
                unit: "x",
                target: Target::Least(0.8),
            },
        ],
        run: reclaim,
    },
    Row {
        name: "cold-checksums",
        needs: &[],
        lines: &[Line {
            name: "cold-checksums",
            what: "4 KiB random reads at queue depth 32 with room for an eighth of the \
                   checksums, against the same with room for all",
            unit: "x",
            target: Target::None,
        }],
        run: cold_checksums,
    },
    Row {
        name: "noisy-neighbour",
        needs: &[],
        lines: &[Line {
            name: "noisy-neighbour",
            what: "p99 of 4 KiB random reads of a volume, one at a time, while another volume is \
                   written at random at queue depth 32, against the same in peace",
            unit: "x",
            target: Target::None,
        }],
        run: noisy,
    },
    Row {
        name: "map-over-budget",
        needs: &[],
        lines: &[
            Line {
                name: "map-over-budget-read",
                what: "4 KiB random reads at queue depth 32 with a map four times the memory \
                       budget, against the same with room for all of it",
                unit: "x",
                target: Target::None,
            },
            Line {
                name: "map-over-budget-write",
                what: "the same: 4 KiB random writes",
                unit: "x",
                target: Target::None,
            },
            Line {
                name: "map-over-budget-kept",
                what: "the same: most memory in use, by the store's own account, against the \
                       budget",
                unit: "x",
                target: Target::None,
            },
        ],
        run: over_budget,
    },
];

fn reclaim(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(8 * MIB, 512 * MIB, 4 * GIB);
    let bytes = 3 * span + bench.size(32 * MIB, 256 * MIB, GIB);
    for (name, ordered) in [("reclaim-rate", true), ("reclaim-rate-random", false)] {
        let path = bench.place.file("reclaim.mj");
        let (mut ratio, mut ours, mut bare) = (Samples::new(), Samples::new(), Samples::new());
        mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
            let store = on_disk(&path, bytes, None, &runtime, by_hand()).await?;
            let volume = store.create_volume("v", span).await?.id;
            if ordered {
                load::run(&store, volume, Load::fill(span)).await?;
            } else {
                let (shuffle, payload) = (Shuffle::of(blocks(span)), load::payload(BLOCK_SIZE));
                for at in 0..blocks(span) {
                    let offset = shuffle.place(at) * BLOCK_SIZE;
                    store.write(volume, offset, payload.clone(), Durability::Buffered).await?;
                }
            }
            store.checkpoint().await?;
            for _ in 0..bench.rounds {
                let before = store.stats();
                let timer = Timer::start();
                store.collect().await?;
                let seconds = timer.took().wall_s;
                let moved = store.stats().moved_bytes - before.moved_bytes;
                ensure!(moved > span / 2, "only {moved} of {span} bytes were moved");
                let copy = bench.place.file("copy");
                let copied = direct::copy(&path, MIB, &copy, moved, 2 * MIB, 4)?;
                let (rate, limit) = (moved as f64 / seconds, moved as f64 / copied);
                ratio.push(rate / limit);
                ours.push(rate / 1e6);
                bare.push(limit / 1e6);
            }
            shut(store).await?;
            Ok(())
        })?;
        let note = format!(
            "{} live: {:.0} MB/s moved, marks and the checkpoint included; direct copy {:.0} MB/s",
            size_text(span),
            ours.median(),
            bare.median()
        );
        report.line(name, &ratio, &note);
    }
    Ok(())
}

fn cold_checksums(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(8 * MIB, GIB, 8 * GIB);
    let count = bench.size(300, 10_000, 50_000u64);
    let path = bench.place.file("cold.mj");
    let (mut ratio, mut note) = (Samples::new(), String::new());
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        // Small segments: the checksums of one are what is dropped and loaded at once.
        let segment = Some((span / 1024).max(MIB));
        let store = on_disk(&path, span * 2 + 64 * MIB, segment, &runtime, roomy()).await?;
        let volume = store.create_volume("v", span).await?.id;
        load::run(&store, volume, Load::fill(span)).await?;
        shut(store).await?;
        // Written in order, the map takes next to nothing: what has no room is the checksums,
        // 4 bytes a block, of which an eighth has.
        let budget = (blocks(span) / 2).max(64 * KIB);
        let tight = OpenOptions { memory_bytes: budget, ..OpenOptions::default() };
        for round in 0..bench.rounds as u64 {
            let mut seen = Vec::new();
            for options in [tight.clone(), roomy()] {
                let store = reopen(&path, &runtime, options).await?;
                let load = Load::random_reads(span, count, round);
                // Once unmeasured: it loads the checksums that there is room for.
                load::run(&store, volume, load).await?;
                seen.push(load::run(&store, volume, load).await?);
                shut(store).await?;
            }
            ratio.push(seen[0].rate() / seen[1].rate());
            note = format!(
                "cold: {:.1} k/s, {}; warm: {:.1} k/s, {} (last round; {} volume)",
                seen[0].rate() / 1e3,
                seen[0].latencies.text(),
                seen[1].rate() / 1e3,
                seen[1].latencies.text(),
                size_text(span)
            );
        }
        Ok(())
    })?;
    report.line("cold-checksums", &ratio, &note);
    Ok(())
}

fn noisy(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(8 * MIB, 512 * MIB, 4 * GIB);
    let time =
        bench.size(Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(10));
    let path = bench.place.file("noisy.mj");
    let (mut ratio, mut note) = (Samples::new(), String::new());
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let bytes = 5 * span + 64 * MIB;
        let store = on_disk(&path, bytes, None, &runtime, OpenOptions::default()).await?;
        let quiet = store.create_volume("quiet", span).await?.id;
        let loud = store.create_volume("loud", span).await?.id;
        load::run(&store, quiet, Load::fill(span)).await?;
        load::run(&store, loud, Load::fill(span)).await?;
        for round in 0..bench.rounds as u64 {
            let reads = Load { depth: 1, ..Load::random_reads(span, 0, round) };
            let peace = load::for_time(&store, quiet, reads, time).await?.seen;
            let noise = load::in_background(&store, &runtime, loud, span, 32, Pause::None);
            let among = load::for_time(&store, quiet, reads, time).await?.seen;
            let noise = noise.end(&runtime).await?;
            ratio.push(among.latencies.quantile_us(0.99) / peace.latencies.quantile_us(0.99));
            note = format!(
                "in peace: {:.1} k/s, {}; beside {:.1} k writes/s: {:.1} k/s, {} (last round)",
                peace.rate() / 1e3,
                peace.latencies.text(),
                noise.count as f64 / among.took.wall_s / 1e3,
                among.rate() / 1e3,
                among.latencies.text(),
            );
        }
        shut(store).await?;
        Ok(())
    })?;
    report.line("noisy-neighbour", &ratio, &note);
    Ok(())
}

/// The memory that a store counts, looked at again and again while something else goes on.
struct Watched {
    most: Rc<Cell<u64>>,
    ends: Rc<Cell<bool>>,
}

impl Watched {
    fn begin<D: Device>(store: &Engine<D, HostRuntime>, runtime: &HostRuntime) -> Self {
        let watched = Watched { most: Rc::default(), ends: Rc::default() };
        let (most, ends) = (watched.most.clone(), watched.ends.clone());
        let (store, clock) = (store.clone(), runtime.clone());
        runtime.spawn(async move {
            while !ends.get() {
                most.set(most.get().max(store.stats().memory_bytes));
                clock.sleep(Duration::from_millis(2)).await;
            }
        });
        watched
    }

    fn end(self) -> u64 {
        self.ends.set(true);
        self.most.get()
    }
}

fn over_budget(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(256 * MIB, 8 * GIB, 64 * GIB);
    let count = bench.size(300, 20_000, 100_000u64);
    let path = bench.place.file("budget.mj");
    let (mut reads, mut writes, mut kept) = (Samples::new(), Samples::new(), Samples::new());
    let mut note = String::new();
    mjolnir_host::run(async |runtime: HostRuntime| -> Result<()> {
        let (bytes, new) = (span * 3 / 2 + 256 * MIB, NewStore::default());
        create_store(&path, NewStore { bytes: Some(bytes), ..new }, &runtime).await?;
        let device = || sparse::open(&path, &runtime);
        Engine::format(device()?, runtime.clone(), FormatOptions::default()).await?;
        let store = Engine::open(device()?, runtime.clone(), by_hand()).await?;
        let volume = store.create_volume("v", span).await?.id;
        let (shuffle, zeroes) = (Shuffle::of(blocks(span)), AlignedBuf::zeroed(4096).freeze());
        for at in 0..blocks(span) {
            let offset = shuffle.place(at) * BLOCK_SIZE;
            store.write(volume, offset, zeroes.clone(), Durability::Buffered).await?;
        }
        let stats = store.stats();
        let map_bytes = stats.map_bytes + stats.map_table_bytes;
        shut(store).await?;
        let usual = OpenOptions::default().checkpoint_bytes;
        let tight =
            OpenOptions { memory_bytes: map_bytes / 4, checkpoint_bytes: usual, ..by_hand() };
        for round in 0..bench.rounds.min(3) as u64 {
            let mut rates = Vec::new();
            let mut most = 0u64;
            for options in [tight.clone(), by_hand()] {
                let is_tight = options.memory_bytes < map_bytes;
                let store = reopen(&path, &runtime, options).await?;
                let watched = Watched::begin(&store, &runtime);
                let mut pair = Vec::new();
                for write in [false, true] {
                    let load = Load { write, ..Load::random_reads(span, count, round) };
                    // Once unmeasured, so that memory holds what it has room for.
                    load::run(&store, volume, Load { seed: round + 100, ..load }).await?;
                    pair.push(load::run(&store, volume, load).await?);
                }
                let seen = watched.end(); // Both are watched, so that it costs both the same.
                most = most.max(if is_tight { seen } else { 0 });
                shut(store).await?;
                rates.push(pair);
            }
            reads.push(rates[0][0].rate() / rates[1][0].rate());
            writes.push(rates[0][1].rate() / rates[1][1].rate());
            kept.push(most as f64 / (map_bytes / 4) as f64);
            let text = |seen: &load::Seen| {
                format!("{:.1} k/s, {}", seen.rate() / 1e3, seen.latencies.text())
            };
            note = format!(
                "{} volume, map {}, budget a quarter: reads {}, writes {}; with room: reads {}, \
                 writes {} (last round; payloads are holes of the file, so that reads of data \
                 cost next to nothing)",
                size_text(span),
                mib(map_bytes),
                text(&rates[0][0]),
                text(&rates[0][1]),
                text(&rates[1][0]),
                text(&rates[1][1]),
            );
        }
        Ok(())
    })?;
    report.line("map-over-budget-read", &reads, &note);
    report.line("map-over-budget-write", &writes, "");
    report.line("map-over-budget-kept", &kept, "");
    Ok(())
}
