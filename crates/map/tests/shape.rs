//! Trees stay low and well filled through many thousands of clones, moves, trims and writes at odd
//! places, also when parts of them are not in memory at the time.

mod world;

use std::collections::BTreeSet;

use mjolnir_units::TreeId;
use world::World;

struct Fill {
    words: f64,
    edges: f64,
    height: u8,
    nodes: usize,
}

/// Mean words a leaf and edges an inner node below the root, of the first tree.
fn fill(world: &mut World) -> Fill {
    let root = world.map.tree_root(TreeId(1)).unwrap();
    let mut open = vec![root.edge.child];
    let mut seen = BTreeSet::new();
    let (mut leaves, mut words, mut inner, mut edges) = (0, 0, 0, 0);
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let node = world.retry(|map| map.node(id));
            if node.is_leaf() {
                leaves += 1;
                words += node.entries().len();
            } else {
                // The root may be as thin as it is.
                inner += i32::from(id != root.edge.child);
                edges += if id == root.edge.child { 0 } else { node.edges().len() };
                open.extend(node.edges().iter().map(|edge| edge.child));
            }
        }
    }
    Fill {
        words: words as f64 / f64::from(leaves),
        edges: edges as f64 / f64::from(inner.max(1)),
        height: root.level + 1,
        nodes: seen.len(),
    }
}

/// Rounds of 500 operations on ranges of up to `longest` blocks in one volume.
fn wear(node_sizes: (usize, usize), blocks: u64, longest: u64, evicting: bool, height_max: u8) {
    let mut world = World::new(blocks, node_sizes);
    let tree = world.create(blocks);
    for i in 0..blocks / 2 {
        world.write(tree, i * 2, 1);
    }
    for round in 0..30 {
        for _ in 0..500 {
            let most = if world.dice.chance(5) { longest } else { 20 };
            let length = 1 + world.dice.below(most);
            let from = world.dice.below(blocks - length);
            let to = world.dice.below(blocks - length);
            match world.dice.below(10) {
                0..=1 => world.clone_range(tree, from, tree, to, length),
                2..=3 => world.move_range(tree, from, tree, to, length),
                4 => world.trim(tree, from, length.min(9)),
                // Fragments what the others made whole.
                _ => (0..length.min(20)).for_each(|i| world.write(tree, from + i, 1)),
            }
            if evicting && world.dice.chance(3) {
                world.checkpoint();
                world.map.evict(usize::MAX);
                world.map.evict(usize::MAX);
            }
        }
        world.mark();
        world.verify();
        let fill = fill(&mut world);
        println!(
            "{node_sizes:?}, evicting {evicting}, round {round}: {} nodes, height {}, {:.1} words \
             a leaf, {:.1} edges an inner node",
            fill.nodes, fill.height, fill.words, fill.edges
        );
        assert!(fill.height <= height_max, "height {}", fill.height);
        assert!(fill.words >= 0.35 * node_sizes.0 as f64, "{} words a leaf", fill.words);
        assert!(
            fill.height == 2 || fill.edges >= 0.25 * node_sizes.1 as f64,
            "{} edges",
            fill.edges
        );
    }
    world.compare();
}

#[test]
fn full_size_nodes_stay_low_and_filled() {
    wear((512, 128), 100_000, 2_000, false, 3);
}

#[test]
fn full_size_nodes_stay_low_and_filled_under_eviction() {
    wear((512, 128), 100_000, 2_000, true, 3);
}

#[test]
fn tall_trees_stay_low_and_filled() {
    wear((16, 16), 20_000, 5_000, false, 6);
}

#[test]
fn tall_trees_stay_low_and_filled_under_eviction() {
    wear((16, 16), 20_000, 5_000, true, 6);
}
