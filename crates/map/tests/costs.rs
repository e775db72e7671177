//! What operations cost, counted in nodes made and nodes changed: it depends on the height of the
//! trees, and not on the length of ranges, the size of volumes or the number of snapshots.

use mjolnir_map::{Map, NodeAddress};
use mjolnir_units::{Lba, Pba, TreeId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const VOLUME: TreeId = TreeId(1);
const OTHER: TreeId = TreeId(2);

/// A volume in which every second block is mapped, all of it clean.
fn volume(blocks: u64) -> Map {
    let mut map = Map::new();
    map.create(VOLUME, blocks);
    map.create(OTHER, blocks);
    for lba in (0..blocks).step_by(2) {
        map.write(VOLUME, Lba(lba), Pba(lba), 1).unwrap();
    }
    clean(&mut map);
    map
}

/// Takes a checkpoint; returns how many nodes had changed.
fn clean(map: &mut Map) -> usize {
    let frozen = map.freeze();
    for (id, _) in &frozen.nodes {
        map.placed(*id, NodeAddress(1 << 20 | u64::from(id.0)));
    }
    frozen.nodes.len()
}

#[test]
fn a_checkpoint_leaves_nothing_behind_of_versions_that_were_replaced_meanwhile() {
    let mut map = volume(400_000);
    let before = map.usage();
    for round in 1..3 {
        let replace = |map: &mut Map, pba: u64| {
            for lba in (0..400_000).step_by(100) {
                map.write(VOLUME, Lba(lba), Pba((round << 40) + pba + 2 * lba), 1).unwrap();
            }
        };
        replace(&mut map, 0);
        let frozen = map.freeze();
        replace(&mut map, 1);
        assert!(
            map.usage().frozen_bytes > before.resident_bytes / 2,
            "all leaves had two versions"
        );
        for (id, _) in frozen.nodes {
            map.placed(id, NodeAddress(round << 40 | u64::from(id.0)));
        }
        let begun = map.forget_superseded(0);
        while map.forget_superseded(100) < begun + 2 {}
        clean(&mut map);
        let after = map.usage();
        // A short list may stay.
        assert!(after.table_bytes <= before.table_bytes + 1024, "{after:?}");
        assert_eq!(after.frozen_bytes, 0);
    }
}

fn height(map: &Map) -> usize {
    usize::from(map.tree_root(VOLUME).unwrap().level) + 1
}

#[test]
fn a_snapshot_makes_and_changes_no_node() {
    for blocks in [1000, 400_000] {
        let mut map = volume(blocks);
        let nodes = map.usage().nodes;
        for i in 0..5000 {
            map.snapshot(VOLUME, TreeId(100 + i));
        }
        assert_eq!((map.usage().nodes, clean(&mut map)), (nodes, 0));
        for i in 0..5000 {
            map.drop_tree(TreeId(100 + i));
        }
        assert_eq!((map.usage().nodes, clean(&mut map)), (nodes, 0));
    }
}

#[test]
fn the_first_write_after_a_snapshot_makes_one_path_and_changes_nothing_else() {
    for (blocks, snapshots) in [(400, 1), (10_000, 1), (400_000, 1), (400_000, 3000)] {
        let mut map = volume(blocks);
        for i in 0..snapshots {
            map.snapshot(VOLUME, TreeId(100 + i));
        }
        let nodes = map.usage().nodes;
        // Replaces a mapped block, so that no leaf grows.
        map.write(VOLUME, Lba(blocks / 2), Pba(1 << 40), 1).unwrap();
        assert_eq!(map.usage().nodes - nodes, height(&map));
        assert_eq!(clean(&mut map), height(&map));
        // The second one changes one leaf in place.
        map.write(VOLUME, Lba(blocks / 2), Pba(1 << 41), 1).unwrap();
        assert_eq!(map.usage().nodes - nodes, height(&map));
        assert_eq!(clean(&mut map), 1);
    }
}

/// The most nodes changed by one of many random operations.
fn most_changed(
    map: &mut Map,
    seed: u64,
    mut operation: impl FnMut(&mut Map, &mut dyn FnMut(u64) -> u64),
) -> usize {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut most = 0;
    for _ in 0..200 {
        operation(map, &mut |end| random.next_u64() % end.max(1));
        map.verify().unwrap();
        most = most.max(clean(map));
        while map.free_some(100) {}
    }
    most
}

#[test]
fn clones_moves_and_trims_of_any_length_touch_a_bounded_number_of_nodes() {
    for blocks in [20_000, 150_000] {
        for longest in [100, blocks] {
            let mut map = volume(blocks);
            let range = |dice: &mut dyn FnMut(u64) -> u64| {
                let length = 1 + dice(longest - 1);
                (length, Lba(dice(blocks - length)), Lba(dice(blocks - length)))
            };
            let clone = most_changed(&mut map, 1, |map, dice| {
                let (length, from, to) = range(dice);
                map.clone_range(VOLUME, from, OTHER, to, length).unwrap();
            });
            let moved = most_changed(&mut map, 2, |map, dice| {
                let (length, from, to) = range(dice);
                map.move_range(OTHER, from, VOLUME, to, length).unwrap();
            });
            let trim = most_changed(&mut map, 3, |map, dice| {
                let (length, from, _) = range(dice);
                map.trim(VOLUME, from, length).unwrap();
            });
            println!("{blocks} blocks, up to {longest}: {clone}, {moved}, {trim} nodes");
            // Two seams in the source, two in the destination, and on each level of a seam the
            // nodes on both sides of it and a neighbour to merge with.
            let height = 4;
            assert!(clone <= 6 * height && moved <= 8 * height && trim <= 4 * height);
        }
    }
}
