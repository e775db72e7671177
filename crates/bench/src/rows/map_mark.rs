//! Marking: how fast the live blocks of a map are found, beside a bare loop that sets the same
//! bits.

use std::hint::black_box;

use anyhow::{Result, ensure};
use mjolnir_engine::MarkLoop;
use mjolnir_map::Map;
use mjolnir_units::{Lba, Pba, TreeId};

use super::{meminfo, size_text};
use crate::chance::Shuffle;
use crate::clock::{Timer, time};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, MIB, TIB, blocks};

pub const ROWS: &[Row] = &[
    Row {
        name: "mark-64g",
        needs: &[],
        lines: &[Line {
            name: "mark-64g",
            what: "marking on one core, each block its own extent, addresses shuffled, duplicates \
                   counted once, against a bare loop over an array of the same addresses that \
                   sets the same bits: 64 GiB map",
            unit: "x",
            target: Target::Least(0.45),
        }],
        run: |bench, report| {
            let bytes = bench.size(64 * MIB, 8 * GIB, 64 * GIB);
            mark(bench, report, "mark-64g", bytes, bench.rounds)
        },
    },
    Row {
        name: "mark-4t",
        needs: &[],
        lines: &[Line {
            name: "mark-4t",
            what: "the same: 4 TiB map, or what the memory there is holds",
            unit: "x",
            target: Target::Least(0.45),
        }],
        run: |bench, report| {
            let wanted = bench.size(128 * MIB, 64 * GIB, 4 * TIB);
            let bytes = fits_in_memory(wanted);
            mark(bench, report, "mark-4t", bytes, bench.rounds.min(3))
        },
    },
];

const VOLUME: TreeId = TreeId(1);
/// Blocks of a segment: 128 MiB.
const ZONE_BLOCKS: u64 = 32_768;

/// The largest power of two up to `wanted` whose map, array and bits leave some memory free.
fn fits_in_memory(wanted: u64) -> u64 {
    let free = meminfo("MemAvailable:") << 10;
    let needed = |bytes: u64| blocks(bytes) * 17 + blocks(bytes) / 4;
    let mut bytes = wanted;
    while needed(bytes) > free - free / 8 && bytes > GIB {
        bytes /= 2;
    }
    bytes
}

fn mark(bench: &Bench, report: &mut Report, line: &str, bytes: u64, rounds: usize) -> Result<()> {
    let count = blocks(bytes);
    report.progress(&format!("mapping {} in blocks of their own", size_text(bytes)));
    let mut map = Map::new();
    map.create(VOLUME, count);
    let shuffle = Shuffle::of(count);
    for lba in 0..count {
        map.write(VOLUME, Lba(lba), Pba(shuffle.place(lba)), 1)?;
    }
    let addresses: Vec<u64> = (0..count).map(|lba| shuffle.place(lba)).collect();
    let zones = count.div_ceil(ZONE_BLOCKS) as usize;
    let (mut ratio, mut ours, mut bare) = (Samples::new(), Samples::new(), Samples::new());
    for _ in 0..rounds {
        // Memory for the bits is taken, and touched first, within the time on both sides.
        let took = time(|| {
            let mut bits = vec![0u64; (count as usize).div_ceil(64)];
            for address in &addresses {
                bits[(address / 64) as usize] |= 1 << (address % 64);
            }
            black_box(&bits);
        });
        let theirs = count as f64 / took.thread_s;
        let marking = MarkLoop::new(zones, ZONE_BLOCKS);
        let mut mappings = 0;
        let timer = Timer::start();
        map.begin_mark();
        loop {
            let step = map.mark_step(MarkLoop::NODES_A_STEP);
            mappings += marking.scan(&step.leaves);
            if step.done {
                break;
            }
        }
        map.end_mark();
        while map.sweep(MarkLoop::NODES_A_STEP) {}
        let rate = mappings as f64 / timer.took().thread_s;
        // A few neighbours lie next to one another by chance, and are one extent.
        ensure!(mappings > count - count / 100, "{mappings} of {count} mappings were marked");
        let live = marking.live_blocks();
        ensure!(live == count, "{live} blocks are live");
        ratio.push(rate / theirs);
        ours.push(rate / 1e6);
        bare.push(theirs / 1e6);
    }
    let note = format!(
        "{} map ({} blocks{}): {:.1} M mappings a second; the bare loop {:.1} M",
        size_text(bytes),
        count,
        if bench.size(false, false, bytes < 4 * TIB && line == "mark-4t") {
            ", what memory holds"
        } else {
            ""
        },
        ours.median(),
        bare.median(),
    );
    report.line(line, &ratio, &note);
    Ok(())
}
