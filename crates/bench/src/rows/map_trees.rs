//! Snapshots and clones in the map alone: what they cost must not follow the size of volumes.

use anyhow::Result;
use mjolnir_map::{Map, Run};
use mjolnir_units::{Lba, Pba, TreeId};

use super::size_text;
use crate::chance::Chance;
use crate::clock::{Took, time};
use crate::report::Report;
use crate::samples::Samples;
use crate::table::{Bench, Line, Row, Target};
use crate::world::{GIB, KIB, MIB, TIB, blocks};

pub const ROWS: &[Row] = &[
    Row {
        name: "snapshot-map",
        needs: &[],
        lines: &[
            Line {
                name: "snapshot-map-size",
                what: "creating a snapshot in the map, of a 1 TiB volume that is 10 % mapped at \
                       random, against one of 128 MiB",
                unit: "x",
                target: Target::Most(2.0),
            },
            Line {
                name: "snapshot-map-lookup",
                what: "creating a snapshot in the map, of the 1 TiB volume, against a lookup in it",
                unit: "x",
                target: Target::Most(100.0),
            },
        ],
        run: snapshots,
    },
    Row {
        name: "clone-map",
        needs: &[],
        lines: &[
            Line {
                name: "clone-map-size",
                what: "clone of a 1 TiB range at an odd alignment between two volumes mapped at \
                       random, again and again, all deferred freeing included, against one of \
                       1 MiB",
                unit: "x",
                target: Target::Most(4.0),
            },
            Line {
                name: "clone-map-first",
                what: "the first such clone, over blocks that the destination alone had mapped, \
                       all of which are freed within the time",
                unit: "x",
                target: Target::None,
            },
        ],
        run: clones,
    },
];

const VOLUME: TreeId = TreeId(1);
const OTHER: TreeId = TreeId(2);

/// Maps a tenth of a new volume's blocks, at random.
fn map_a_tenth(map: &mut Map, tree: TreeId, count: u64, seed: u64) -> Result<()> {
    let mut chance = Chance::new(seed);
    map.create(tree, count);
    let mut pba = u64::from(tree.0) << 36;
    for lba in 0..count {
        if chance.below(10) == 0 {
            pba += 2;
            map.write(tree, Lba(lba), Pba(pba), 1)?;
        }
    }
    Ok(())
}

fn snapshots(bench: &Bench, report: &mut Report) -> Result<()> {
    let large_bytes = bench.size(256 * MIB, 64 * GIB, TIB);
    let (large, small) = (blocks(large_bytes), blocks(128 * MIB));
    let mut maps = [Map::new(), Map::new()];
    for (map, count) in maps.iter_mut().zip([large, small]) {
        map_a_tenth(map, VOLUME, count, count)?;
    }
    let batch = bench.size(100, 2000, 2000u32);
    // Unmeasured once, so that the first round finds memory and caches as the others do.
    let mut create = |map: &mut Map| {
        let took = time(|| (0..batch).for_each(|i| map.snapshot(VOLUME, TreeId(100 + i))));
        (0..batch).for_each(|i| map.drop_tree(TreeId(100 + i)));
        took.thread_s / f64::from(batch)
    };
    for map in &mut maps {
        create(map);
    }
    let (mut by_size, mut by_lookup) = (Samples::new(), Samples::new());
    let (mut times, mut lookups) = (Samples::new(), Samples::new());
    let mut chance = Chance::new(3);
    for _ in 0..bench.rounds.max(bench.size(1, 9, 9)) {
        let [of_large, of_small] = maps.each_mut().map(&mut create);
        let at: Vec<u64> = (0..10_000).map(|_| chance.below(large)).collect();
        let mut found: Vec<Run> = Vec::new();
        let mut result = Ok(());
        let took = time(|| {
            for lba in &at {
                found.clear();
                result = result.and(maps[0].lookup(VOLUME, Lba(*lba), 1, &mut found));
            }
        });
        result?;
        let lookup = took.thread_s / at.len() as f64;
        by_size.push(of_large / of_small);
        by_lookup.push(of_large / lookup);
        times.push(of_large * 1e9);
        lookups.push(lookup * 1e9);
    }
    let note = format!(
        "{} volume: {:.0} ns a snapshot, {:.0} ns a random lookup",
        size_text(large_bytes),
        times.median(),
        lookups.median()
    );
    report.line("snapshot-map-size", &by_size, &note);
    report.line("snapshot-map-lookup", &by_lookup, "");
    Ok(())
}

/// Clones a range and works off all that this leaves to free.
fn clone(map: &mut Map, from: u64, to: u64, length: u64) -> Result<Took> {
    let mut result = Ok(());
    let took = time(|| {
        result = map.clone_range(VOLUME, Lba(from), OTHER, Lba(to), length);
        while map.free_some(1000) {}
    });
    result?;
    Ok(took)
}

fn clones(bench: &Bench, report: &mut Report) -> Result<()> {
    let long_bytes = bench.size(64 * MIB, 32 * GIB, TIB);
    let (long, short) = (blocks(long_bytes), blocks(MIB));
    let volume = long + blocks(64 * MIB);
    let (mut steady, mut first) = (Samples::new(), Samples::new());
    let (mut of_long, mut of_short) = (Samples::new(), Samples::new());
    for round in 0..bench.rounds.min(bench.size(1, 3, 3)) as u64 {
        let mut chance = Chance::new(round);
        let mut map = Map::new();
        map_a_tenth(&mut map, VOLUME, volume, 2 * round)?;
        map_a_tenth(&mut map, OTHER, volume, 2 * round + 1)?;
        // Odd places: nothing is aligned with anything.
        let mut at = |length: u64| chance.below((volume - length) / 2) * 2 + 1;
        let begun = clone(&mut map, at(long), at(long), long)?;
        let mut times = [Samples::new(), Samples::new()];
        for _ in 0..bench.size(10, 200, 200) {
            for (time, length) in times.iter_mut().zip([long, short]) {
                let took = clone(&mut map, at(length), at(length), length)?;
                time.push(took.thread_s * 1e6);
            }
        }
        let [long_us, short_us] = times.map(|times| times.median());
        steady.push(long_us / short_us);
        first.push(begun.thread_s * 1e6 / short_us);
        of_long.push(long_us);
        of_short.push(short_us);
    }
    let note = format!(
        "{}: {:.1} µs, {}: {:.1} µs (medians of their own)",
        size_text(long_bytes),
        of_long.median(),
        size_text(1024 * KIB),
        of_short.median()
    );
    report.line("clone-map-size", &steady, &note);
    let note = "the nodes of the whole range are freed: that much no design can spare, only defer";
    report.line("clone-map-first", &first, note);
    Ok(())
}
