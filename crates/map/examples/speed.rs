//! How long the map's operations take, alone: `cargo run --release -p mjolnir-map --example speed`.
//! The first argument is the size of the volume in blocks (default 4 Mi: 16 GiB).

#![allow(clippy::disallowed_methods)] // It measures the real world.

use std::hint::black_box;
use std::time::Instant;

use mjolnir_map::{Map, NodeId, Relocations, Repointer, word};
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
                black_box(word::sum(&node.entries().whole()));
                words += node.entries().len();
            }
            if step.done {
                break;
            }
        }
        map.end_mark();
        while map.sweep(1000) {}
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
    relocation(&mut random);
    drive(blocks, &mut random);
}

/// The numbers below `count`, in no order.
fn shuffled(count: u64, random: &mut Pcg64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for at in (1..count).rev() {
        numbers.swap(at as usize, (random.next_u64() % (at + 1)) as usize);
    }
    numbers
}

/// A segment of single blocks in random order, of which 2,000 snapshots share all but one each.
fn relocation(random: &mut Pcg64) {
    const BLOCKS: u64 = 1 << 15;
    let mut map = Map::new();
    map.create(VOLUME, BLOCKS);
    for (at, place) in (0..).zip(shuffled(BLOCKS, random)) {
        map.write(VOLUME, Lba(place), Pba(at), 1).unwrap();
    }
    for number in 0..2000 {
        map.write(VOLUME, Lba(random.next_u64() % BLOCKS), Pba((1 << 20) + 2 * number), 1).unwrap();
        map.snapshot(VOLUME, TreeId(100 + number as u32));
    }
    let mut leaves: Vec<NodeId> = Vec::new();
    map.begin_mark();
    loop {
        let step = map.mark_step(256);
        leaves.extend(step.leaves.iter().map(|(id, _)| *id));
        if step.done {
            break;
        }
    }
    map.end_mark();
    while map.sweep(1000) {}
    leaves.sort_unstable();
    let count = leaves.len() as u64;
    let words: usize =
        leaves.iter().map(|id| map.leaf(*id).unwrap().unwrap().entries().len()).sum();
    println!("{count} leaves of {} words", words as u64 / count);
    for round in 0..4 {
        let mut moves = Relocations::builder();
        let (from, to) = (round % 2 * BLOCKS * 8, (1 - round % 2) * BLOCKS * 8);
        moves.empties(Pba(from), BLOCKS);
        for at in 0..BLOCKS / 256 {
            // Groups with a header each.
            moves.add(Pba(from + 256 * at), 256, Pba(to + 256 * at));
        }
        let moves = moves.build();
        let mut repointer = Repointer::new(&moves, false);
        time("repoint of such a leaf, all of whose blocks move", count, |at| {
            map.repoint_by(&mut repointer, leaves[at as usize]).unwrap();
        });
    }
}

/// A drive that was written at random: each leaf refers to most segments, and some are emptied.
fn drive(blocks: u64, random: &mut Pcg64) {
    let mut map = Map::new();
    map.create(VOLUME, blocks);
    for (lba, pba) in (0..).zip(shuffled(blocks, random)) {
        map.write(VOLUME, Lba(lba), Pba(2 * pba), 1).unwrap();
    }
    let segments = 2 * blocks / 4096;
    let mut moves = Relocations::builder();
    for segment in (0..segments).step_by(8) {
        moves.empties(Pba(4096 * segment), 4096);
        for at in (4096 * segment..4096 * (segment + 1)).step_by(2) {
            moves.add(Pba(at), 1, Pba((1 << 40) + at));
        }
    }
    let moves = moves.build();
    map.begin_mark();
    let mut leaves = Vec::new();
    loop {
        let step = map.mark_step(256);
        leaves.extend(step.leaves.into_iter().map(|(id, _)| id));
        if step.done {
            break;
        }
    }
    map.end_mark();
    while map.sweep(1000) {}
    let mut repointer = Repointer::new(&moves, false);
    time(
        "repoint of a random leaf, one in eight of whose blocks moves",
        leaves.len() as u64,
        |at| {
            map.repoint_by(&mut repointer, leaves[at as usize]).unwrap();
        },
    );
}
