//! What the map takes of memory, by its own account and by the allocator's; and the engine around
//! it.

use std::time::Duration;

use anyhow::Result;
use mjolnir_device::{AlignedBuf, Runtime};
use mjolnir_engine::{Engine, OpenOptions};
use mjolnir_host::HostRuntime;
use mjolnir_machine::ThinDevice;
use mjolnir_map::Map;
use mjolnir_store::report::Stats;
use mjolnir_units::{BLOCK_SIZE, Lba, Pba, TreeId};

use super::size_text;
use crate::chance::Chance;
use crate::heap;
use crate::load::{self, Load};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, blocks, fresh, roomy};

pub const ROWS: &[Row] = &[
    Row {
        name: "map-memory-random",
        needs: &[],
        lines: &[Line {
            name: "map-memory-random",
            what: "map memory a mapped block, every 4 KiB block its own extent, after random \
                   overwrites",
            unit: "B",
            target: Target::Most(8.5),
        }],
        run: random_map,
    },
    Row {
        name: "engine-memory-random",
        needs: &[],
        lines: &[Line {
            name: "engine-memory-random",
            what: "all engine memory a mapped block, checksums and accounts included, after \
                   random overwrites at 85 % utilization",
            unit: "B",
            target: Target::Most(13.0),
        }],
        run: random_engine,
    },
    Row {
        name: "memory-sequential",
        needs: &[],
        lines: &[
            Line {
                name: "map-memory-sequential",
                what: "map memory a mapped block, sequentially written",
                unit: "B",
                target: Target::Most(0.1),
            },
            Line {
                name: "engine-memory-sequential",
                what: "the same with checksums cached: all engine memory",
                unit: "B",
                target: Target::Most(4.1),
            },
        ],
        run: sequential,
    },
];

const VOLUME: TreeId = TreeId(1);

fn random_map(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = blocks(bench.size(64 * MIB, 8 * GIB, 64 * GIB));
    let (mut own, mut counted) = (Samples::new(), Samples::new());
    for round in 0..bench.rounds.min(bench.size(1, 2, 2)) {
        let heap = heap::Count::begin();
        let mut map = Map::new();
        map.create(VOLUME, count);
        let mut chance = Chance::new(round as u64);
        let mut pba = 0;
        for lba in 0..count {
            pba += 2;
            map.write(VOLUME, Lba(lba), Pba(pba), 1)?;
        }
        for _ in 0..count {
            pba += 2;
            map.write(VOLUME, Lba(chance.below(count)), Pba(pba), 1)?;
        }
        own.push(map.usage().bytes() as f64 / count as f64);
        counted.push(heap.bytes() as f64 / count as f64);
    }
    let note = format!(
        "{} map; by the allocator's count {:.3} B a block",
        size_text(count * BLOCK_SIZE),
        counted.median()
    );
    report.line("map-memory-random", &own, &note);
    Ok(())
}

/// What a store of that many blocks takes, by its own account of the map and of everything, and by
/// the allocator's count.
struct Taken {
    map: f64,
    own: f64,
    counted: f64,
    note: String,
}

impl Taken {
    /// The larger of the two accounts of everything: the honest one.
    fn all(&self) -> f64 {
        self.own.max(self.counted)
    }
}

fn store_memory(bench: &Bench, span: u64, loads: &[Load], spare: f64) -> Result<Taken> {
    let still = Duration::from_millis(bench.size(100, 3_000, 3_000));
    let zone_blocks = bench_zone_blocks(span);
    let zones = (blocks(span) as f64 / (1.0 - spare) / zone_blocks as f64).ceil() as u32 + 4;
    mjolnir_host::run(async |runtime: HostRuntime| {
        let device = ThinDevice::of_zones(zones, zone_blocks);
        let options = OpenOptions { checkpoint_bytes: GIB, ..roomy() };
        let (heap, lent) = (heap::Count::begin(), device.bytes());
        let store = fresh(|| device.clone(), &runtime, options).await?;
        let volume = store.create_volume("v", span).await?;
        for load in loads {
            let zeroes = AlignedBuf::zeroed(load.bytes as usize).freeze();
            drop(load::run_with(&store, volume.id, *load, zeroes).await?);
        }
        store.checkpoint().await?;
        let count = blocks(span) as f64;
        let at_work = store.stats().memory_bytes as f64 / (1 << 20) as f64;
        let stats = at_rest(&store, &runtime, still).await;
        let counted = heap.bytes() - (device.bytes() - lent) as isize;
        let taken = Taken {
            map: (stats.map_bytes + stats.map_table_bytes) as f64 / count,
            own: stats.memory_bytes as f64 / count,
            counted: counted as f64 / count,
            note: format!(
                "{} volume, {} segments in use of {zones}, reclaim at rest; nodes {:.3}, table \
                 {:.3}, checksums {:.3}; all by its own account {:.3}, by the allocator's {:.3} B \
                 a block; when the load ended, {:.1} MiB more, whatever the size",
                size_text(span),
                ((stats.space.total_bytes - stats.space.free_bytes) / stats.segment_bytes),
                stats.map_bytes as f64 / count,
                stats.map_table_bytes as f64 / count,
                stats.checksum_bytes as f64 / count,
                stats.memory_bytes as f64 / count,
                counted as f64 / count,
                at_work - stats.memory_bytes as f64 / (1 << 20) as f64,
            ),
        };
        store.close().await?;
        Ok(taken)
    })
}

/// Waits until reclaim rests and holds nothing, and buffers are let go of that nobody needs again: until
/// all is `still` for so long. What the store works with is no part of what a block costs.
async fn at_rest(
    store: &Engine<ThinDevice, HostRuntime>,
    runtime: &HostRuntime,
    still: Duration,
) -> Stats {
    loop {
        let before = store.stats();
        runtime.sleep(still).await;
        let after = store.stats();
        let held = after.index_bytes + after.relocation_bytes + after.mark_bytes;
        let is_still = |of: fn(&Stats) -> u64| of(&after) == of(&before);
        if held == 0 && is_still(|stats| stats.moved_bytes) && is_still(|stats| stats.buffer_bytes)
        {
            return after;
        }
    }
}

fn bench_zone_blocks(span: u64) -> u64 {
    (blocks(span) / 128).next_power_of_two().clamp(256, 32_768)
}

fn random_engine(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(64 * MIB, 2 * GIB, 64 * GIB);
    let count = blocks(span);
    // Written once in order, then overwritten at random until each block is its own extent.
    let scatter = Load { depth: 8, ..Load::random_writes(span, bench.size(1, 3, 3) * count, 1) };
    let fill = Load::fill(span);
    let taken = store_memory(bench, span, &[fill, scatter], 0.15)?;
    report.line("engine-memory-random", &Samples::one(taken.all()), &taken.note);
    Ok(())
}

fn sequential(bench: &Bench, report: &mut Report) -> Result<()> {
    let span = bench.size(64 * MIB, 16 * GIB, 256 * GIB);
    let taken = store_memory(bench, span, &[Load::fill(span)], 0.1)?;
    report.line("map-memory-sequential", &Samples::one(taken.map), &taken.note);
    report.line("engine-memory-sequential", &Samples::one(taken.all()), "");
    Ok(())
}
