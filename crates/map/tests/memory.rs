//! What the map takes of memory: at most 8.5 bytes a block when every block is its own extent, and
//! next to nothing when extents are long.

use mjolnir_map::{Map, Node};
use mjolnir_units::{Lba, Pba, TreeId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const VOLUME: TreeId = TreeId(1);
const OTHER: TreeId = TreeId(2);

fn bytes_a_block(map: &Map, blocks: u64) -> f64 {
    map.verify().unwrap();
    map.usage().bytes() as f64 / blocks as f64
}

/// Writes every block once, in random order, each to a place that is next to no other.
fn overwrite_all(map: &mut Map, blocks: u64, pba: u64) {
    let mut order: Vec<u64> = (0..blocks).collect();
    let mut random = Pcg64::seed_from_u64(blocks);
    for i in (1..order.len()).rev() {
        order.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
    }
    for (i, lba) in order.into_iter().enumerate() {
        map.write(VOLUME, Lba(lba), Pba(pba + 2 * i as u64), 1).unwrap();
    }
}

#[test]
fn a_volume_of_single_blocks_takes_at_most_8_5_bytes_a_block() {
    // Sizes at which leaves end up nearly full, half full, and in between.
    for blocks in [1 << 19, 540_000, 700_000, 1_000_000] {
        let mut map = Map::new();
        map.create(VOLUME, blocks);
        map.write(VOLUME, Lba(0), Pba(0), blocks).unwrap();
        overwrite_all(&mut map, blocks, blocks);
        let once = bytes_a_block(&map, blocks);
        overwrite_all(&mut map, blocks, 3 * blocks);
        let twice = bytes_a_block(&map, blocks);
        println!("{blocks} blocks: {once:.3} and {twice:.3} bytes a block");
        assert!(
            once <= 8.5 && twice <= 8.5,
            "{blocks} blocks: {once:.3}, {twice:.3} bytes a block"
        );
    }
}

#[test]
fn a_volume_of_single_blocks_filled_in_order_takes_no_more() {
    let (mut map, blocks) = (Map::new(), 300_000);
    map.create(VOLUME, blocks);
    for lba in 0..blocks {
        map.write(VOLUME, Lba(lba), Pba(2 * lba), 1).unwrap();
    }
    let bytes = bytes_a_block(&map, blocks);
    assert!(bytes <= 8.5, "{bytes:.3} bytes a block");
}

#[test]
fn a_volume_written_in_order_takes_next_to_nothing() {
    let (mut map, blocks) = (Map::new(), 1 << 20);
    map.create(VOLUME, blocks);
    for lba in (0..blocks).step_by(8) {
        map.write(VOLUME, Lba(lba), Pba(lba), 8).unwrap();
    }
    let bytes = bytes_a_block(&map, blocks);
    assert!(bytes <= 0.1, "{bytes:.3} bytes a block");
}

#[test]
fn no_leaf_has_room_for_more_words_than_blocks() {
    let (mut map, blocks) = (Map::new(), 50_000);
    map.create(VOLUME, blocks);
    map.create(OTHER, blocks);
    overwrite_all(&mut map, blocks, blocks);
    let mut random = Pcg64::seed_from_u64(7);
    let mut below = |limit: u64| random.next_u64() % limit;
    // Those of an `Arc`.
    const COUNTS: usize = 16;
    let (mut leaves, mut full) = (0, 0);
    for round in 0..40 {
        for _ in 0..50 {
            let (from, to, count) = (below(blocks - 900), below(blocks - 900), 1 + below(900));
            match below(8) {
                0 => map.clone_range(VOLUME, Lba(from), OTHER, Lba(to), count).unwrap(),
                1 => map.move_range(VOLUME, Lba(from), OTHER, Lba(to), count).unwrap(),
                _ => map.write(VOLUME, Lba(to), Pba((1 << 30) + 2 * round), 1).unwrap(),
            }
        }
        map.begin_mark();
        loop {
            let step = map.mark_step(1000);
            for (_, leaf) in &step.leaves {
                let room = (leaf.bytes() - COUNTS - size_of::<Node>()) as u64 / 8;
                assert!(room <= leaf.blocks(), "room for {room} words of {} blocks", leaf.blocks());
                leaves += 1;
                full += u64::from(room == leaf.blocks());
            }
            if step.done {
                break;
            }
        }
        map.end_mark();
    }
    assert!(full > leaves / 10, "{full} of {leaves} leaves have room for a word a block");
}

#[test]
fn a_sparse_volume_of_256_tib_costs_one_node() {
    let mut map = Map::new();
    map.create(VOLUME, 1 << 36);
    assert_eq!(map.usage().nodes, 1);
    map.write(VOLUME, Lba(1 << 35), Pba(7), 1).unwrap();
    map.trim(VOLUME, Lba(5), 1 << 30).unwrap();
    assert_eq!(map.usage().nodes, 1);
}

#[test]
fn overwriting_single_blocks_by_long_extents_gives_the_memory_back() {
    let (mut map, blocks) = (Map::new(), 200_000);
    map.create(VOLUME, blocks);
    overwrite_all(&mut map, blocks, 0);
    for lba in (0..blocks).step_by(100) {
        map.write(VOLUME, Lba(lba), Pba(1 << 40 | lba), 100).unwrap();
    }
    while map.free_some(100) {}
    let bytes = bytes_a_block(&map, blocks);
    assert!(bytes <= 0.3, "{bytes:.3} bytes a block"); // Most of it the table, which keeps its size.
}
