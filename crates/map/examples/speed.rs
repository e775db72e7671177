//! How long the map's operations take, alone: `cargo run --release -p mjolnir-map --example speed`.
//! The first argument is the size of the volume in blocks (default 4 Mi: 16 GiB).

#![allow(clippy::disallowed_methods)] // It measures the real world.

use std::hint::black_box;
use std::time::Instant;

use mjolnir_map::{Map, word};
use mjolnir_units::{Lba, Pba, TreeId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const VOLUME: TreeId = TreeId(1);
const OTHER: TreeId = TreeId(2);

fn time(what: &str, count: u64, mut operation: impl FnMut(u64)) {
    let start = Instant::now();
    (0..count).for_each(&mut operation);
    let ns = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{ns:12.1} ns  {what}");
}

fn main() {
    let blocks: u64 =
        std::env::args().nth(1).map_or(1 << 22, |text| text.parse().expect("a number of blocks"));
    let mut random = Pcg64::seed_from_u64(1);
    let mut at = |length: u64| Lba(random.next_u64() % (blocks - length));
    let mut map = Map::new();
    map.create(VOLUME, blocks);
    map.create(OTHER, blocks);
    time("write of 1 block, in order, each its own extent", blocks, |i| {
        map.write(VOLUME, Lba(i), Pba(2 * i), 1).unwrap();
    });
    let mut pba = 1 << 40;
    time("write of 1 block, at random", blocks, |_| {
        pba += 2;
        map.write(VOLUME, at(1), Pba(pba), 1).unwrap();
    });
    println!("{:12.3} bytes a block", map.usage().bytes() as f64 / blocks as f64);
    let mut runs = Vec::new();
    for length in [1, 16, 256] {
        time(&format!("lookup of {length} blocks, at random"), 1 << 20, |_| {
            runs.clear();
            map.lookup(VOLUME, at(length), length, &mut runs).unwrap();
            black_box(&runs);
        });
    }
    time("whole mark, summing all words of all leaves, for each leaf word", 1, |_| {
        let start = Instant::now();
        let mut words = 0;
        map.begin_mark();
        loop {
            let step = map.mark_step(256);
            for (_, node) in &step.leaves {
                black_box(word::sum(node.entries()));
                words += node.entries().len();
            }
            if step.done {
                break;
            }
        }
        map.end_mark();
        println!(
            "{:12.3} ns  of mark for each of {words} words",
            start.elapsed().as_nanos() as f64 / words as f64
        );
    });
    time("snapshot and first write after it", 1 << 12, |i| {
        map.snapshot(VOLUME, TreeId(100 + i as u32));
        pba += 2;
        map.write(VOLUME, at(1), Pba(pba), 1).unwrap();
    });
    time("write of 1 block while 4096 snapshots exist", 1 << 16, |_| {
        pba += 2;
        map.write(VOLUME, at(1), Pba(pba), 1).unwrap();
    });
    for length in [1, 64, 4096, blocks / 4] {
        time(&format!("clone of {length} blocks, at random"), 1 << 12, |_| {
            map.clone_range(VOLUME, at(length), OTHER, at(length), length).unwrap();
        });
        time(&format!("move of {length} blocks, at random"), 1 << 12, |_| {
            map.move_range(OTHER, at(length), OTHER, at(length), length).unwrap();
        });
    }
    time("write of 256 blocks, at random", 1 << 14, |_| {
        pba += 300;
        map.write(VOLUME, at(256), Pba(pba), 256).unwrap();
    });
    time("trim of 1 block, at random", 1 << 16, |_| map.trim(VOLUME, at(1), 1).unwrap());
    let usage = map.usage();
    println!("{usage:?}");
    while map.free_some(1000) {}
    map.verify().unwrap();
}
