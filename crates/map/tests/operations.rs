//! Whatever sequence of operations is applied, every tree holds what a table of block to address
//! holds, and all invariants stay. Small nodes make the trees tall.

mod world;

use world::{World, for_seeds};

fn random_operations(seed: u64, node_sizes: (usize, usize), blocks: u64, steps: usize) {
    let mut world = World::new(seed, node_sizes);
    for _ in 0..3 {
        let tree = world.create(blocks);
        // Each block its own extent in places, else one long extent.
        world.write(tree, 0, blocks / 2);
        for i in 0..blocks / 8 {
            world.write(tree, blocks / 2 + i * 2, 1);
        }
    }
    for step in 0..steps {
        world.step(8);
        if step % 16 == 0 {
            world.verify();
        }
        if step % 64 == 0 {
            world.compare();
        }
    }
    world.verify();
    world.compare();
}

#[test]
fn tall_trees_equal_the_model() {
    for_seeds(0..40, |seed| random_operations(seed, (8, 4), 500, 500));
}

#[test]
fn medium_trees_equal_the_model() {
    for_seeds(100..110, |seed| random_operations(seed, (32, 16), 3000, 800));
}

#[test]
fn trees_of_full_size_nodes_equal_the_model() {
    for_seeds(200..204, |seed| random_operations(seed, (512, 128), 12_000, 800));
}

#[test]
fn tiny_trees_equal_the_model() {
    for_seeds(300..340, |seed| random_operations(seed, (4, 4), 12, 600));
}

/// Cost follows distinct leaves: thousands of snapshots, each of a slightly different volume.
#[test]
fn thousands_of_snapshots_keep_their_content() {
    for_seeds(400..402, |seed| {
        let mut world = World::new(seed, (8, 4));
        let volume = world.create(200);
        world.write(volume, 0, 200);
        for i in 0..3000 {
            let (lba, blocks) = world.range(200);
            match i % 3 {
                0 => world.write(volume, lba, blocks.min(3)),
                1 => world.trim(volume, lba, blocks.min(3)),
                _ => world.clone_range(volume, lba, volume, (200 - blocks) / 2, blocks),
            }
            let snapshot = world.snapshot(volume);
            if world.dice.chance(20) {
                world.drop_tree(snapshot);
            }
        }
        world.verify();
        world.compare();
        world.mark();
        world.verify();
        world.compare();
        assert_eq!(world.map.usage().nodes, world.reachable().len());
    });
}
