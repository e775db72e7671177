//! Trees stay low and well filled through many thousands of clones, moves, trims and writes at odd
//! places, also when parts of them are not in memory at the time.

mod world;

use mjolnir_map::{INNER_MAX, LEAF_MAX, NodeAddress};
use mjolnir_units::{Lba, Pba, TreeId};
use world::Dice;

struct Fill {
    leaves: f64,
    inner: f64,
    height: u8,
    nodes: usize,
}

fn fill(map: &mjolnir_map::Map, tree: TreeId) -> Fill {
    let root = map.tree_root(tree).unwrap();
    let mut open = vec![root.edge.child];
    let mut seen = std::collections::BTreeSet::new();
    let (mut leaves, mut words, mut inner, mut edges) = (0, 0, 0, 0);
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let node = map.node(id).unwrap();
            if node.is_leaf() {
                leaves += 1;
                words += node.entries().len();
            } else {
                inner += 1;
                edges += node.edges().len();
                open.extend(node.edges().iter().map(|edge| edge.child));
            }
        }
    }
    Fill {
        leaves: words as f64 / f64::from(leaves) / LEAF_MAX as f64,
        inner: f64::from(edges as u32) / f64::from(inner.max(1)) / INNER_MAX as f64,
        height: root.level + 1,
        nodes: seen.len(),
    }
}

#[test]
fn trees_stay_low_and_filled() {
    const BLOCKS: u64 = 1 << 22;
    let tree = TreeId(1);
    let mut dice = Dice::new(1);
    let mut map = mjolnir_map::Map::new();
    map.create(tree, BLOCKS);
    let mut pba = 0;
    for round in 0..40 {
        for _ in 0..1000 {
            let longest = dice.pick(&[20, 3000, 100_000]);
            let blocks = 1 + dice.below(longest);
            let from = dice.below(BLOCKS - blocks);
            let to = dice.below(BLOCKS - blocks);
            match dice.below(10) {
                0..=1 => map.clone_range(tree, Lba(from), tree, Lba(to), blocks).unwrap(),
                2..=4 => map.move_range(tree, Lba(from), tree, Lba(to), blocks).unwrap(),
                5 => map.trim(tree, Lba(from), blocks.min(50)).unwrap(),
                _ => {
                    for i in 0..8 {
                        map.write(tree, Lba(from + i * 2 % blocks), Pba(pba), 1).unwrap();
                        pba += 2;
                    }
                }
            }
        }
        while map.free_some(1000) {}
        map.begin_mark();
        while !map.mark_step(1000).done {}
        map.end_mark();
        map.verify().unwrap();
        let fill = fill(&map, tree);
        assert_eq!(map.usage().nodes, fill.nodes);
        println!(
            "round {round}: {} nodes, height {}, leaves {:.2} full, inner nodes {:.2}",
            fill.nodes, fill.height, fill.leaves, fill.inner
        );
        assert!(fill.height <= 4, "height {}", fill.height);
        if fill.nodes > 100 {
            assert!(fill.leaves >= 0.3 && fill.inner >= 0.2, "{} {}", fill.leaves, fill.inner);
        }
        let frozen = map.freeze();
        for (id, _) in &frozen.nodes {
            map.placed(*id, NodeAddress(1 + u64::from(id.0)));
        }
    }
}
