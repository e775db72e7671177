//! Nodes leave memory and come back, checkpoints are taken while operations run, fail, and crashes
//! fall between: the trees always equal the model, and after a crash the model at the time of the
//! last complete checkpoint. The fake media check that nothing is given back that is still needed,
//! and that everything else is given back.

mod world;

use world::{World, for_seeds, image};

fn random_checkpoints(seed: u64, node_sizes: (usize, usize), blocks: u64, steps: usize) {
    let mut world = World::new(seed, node_sizes);
    let tree = world.create(blocks);
    for i in 0..blocks / 4 {
        world.write(tree, i * 2, 1);
    }
    world.create(blocks);
    world.checkpoint();
    for _ in 0..steps {
        for _ in 0..world.dice.below(12) {
            world.step(8);
        }
        match world.dice.below(12) {
            0..=4 => {
                let bytes = world.dice.below(1 << 14) as usize;
                world.map.evict(bytes);
            }
            5 => {
                world.map.evict(usize::MAX);
                assert!(world.map.usage().resident_bytes >= world.map.usage().dirty_bytes);
            }
            6..=8 => checkpoint_with_operations_in_between(&mut world),
            9 => failed_checkpoint(&mut world),
            10 => {
                world.mark();
            }
            _ => {
                world.crash();
                world.verify();
                world.compare();
            }
        }
        world.verify();
    }
    world.compare();
    // All is freed in the end.
    for tree in world.trees() {
        world.drop_tree(tree);
    }
    world.mark();
    assert_eq!(world.map.usage().nodes, 0);
    world.checkpoint();
    assert!(world.media.is_empty());
}

fn checkpoint_with_operations_in_between(world: &mut World) {
    let (mut frozen, model) = (world.map.freeze(), world.model.clone());
    let mut images: Vec<_> = frozen.nodes.iter().map(|(id, node)| image(*id, node)).collect();
    if world.dice.chance(50) {
        // Once a node is encoded, nothing needs its frozen version.
        frozen.nodes.clear();
    }
    while !images.is_empty() {
        let count = images.len().min(world.dice.below(20) as usize);
        for (id, image) in images.drain(..count) {
            world.place_image(id, image);
        }
        world.step(8);
        world.map.evict(1 << 12);
        world.map.free_some(2);
    }
    world.verify();
    world.complete(frozen, model);
}

fn failed_checkpoint(world: &mut World) {
    let frozen = world.map.freeze();
    let count = world.dice.below(frozen.nodes.len() as u64 + 1) as usize;
    world.place(&frozen, 0, count);
    world.step(8);
    if world.dice.chance(50) {
        world.map.dirty_pages();
    }
    world.map.evict(1 << 14);
    world.map.abandon(frozen);
}

#[test]
fn tall_trees_survive_eviction_and_crashes() {
    for_seeds(0..60, |seed| random_checkpoints(seed, (8, 4), 400, 150));
}

#[test]
fn trees_of_full_size_nodes_survive_eviction_and_crashes() {
    for_seeds(100..104, |seed| random_checkpoints(seed, (512, 128), 8000, 100));
}
