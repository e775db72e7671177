//! A mark runs while operations go on. It frees nothing that is reachable; one from a quiet state
//! frees all that is not; and every reference that is older than the mark and still there has been
//! handed out, together with the leaf that now holds it.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use mjolnir_map::{Node, NodeId, Relocations};
use mjolnir_units::Pba;
use world::{World, for_seeds};

type References = BTreeMap<NodeId, BTreeSet<u64>>;

fn references(node: &Node) -> impl Iterator<Item = u64> {
    node.extents().flat_map(|(_, blocks, pba)| {
        let first = pba.map_or(0, |at| at.0);
        first..first + if pba.is_some() { blocks } else { 0 }
    })
}

/// All that reachable leaves refer to.
fn all_references(world: &mut World) -> References {
    let mut found = References::new();
    for id in world.reachable() {
        let node = world.retry(|map| map.node(id));
        if node.is_leaf() {
            found.insert(id, references(&node).collect());
        }
    }
    found
}

fn prepared(seed: u64, node_sizes: (usize, usize), blocks: u64) -> World {
    let mut world = World::new(seed, node_sizes);
    let tree = world.create(blocks);
    for i in 0..blocks / 4 {
        world.write(tree, i * 2, 1);
    }
    world.create(blocks);
    for _ in 0..40 {
        world.step(8);
    }
    world
}

/// Moves some blocks, as a collector does: every leaf that refers to them is repointed.
fn relocate(world: &mut World) {
    let mut moves = Relocations::builder();
    let first = world.dice.below(world.next_pba);
    let blocks = 1 + world.dice.below(40);
    for i in 0..blocks {
        // Every third lands elsewhere than next to the others.
        let to = world.next_pba + i + if i % 3 == 0 { blocks } else { 0 };
        moves.add(Pba(first + i), 1, Pba(to));
    }
    world.next_pba += 2 * blocks;
    let moves = moves.build();
    for leaf in all_references(world).into_keys() {
        world.retry(|map| map.repoint(leaf, &moves));
    }
    for cell in world.model.values_mut().flatten() {
        if let Some((to, _)) = cell.and_then(|at| moves.lookup(Pba(at))) {
            *cell = Some(to.0);
        }
    }
}

fn mark_under_mutation(seed: u64, node_sizes: (usize, usize), blocks: u64) {
    let mut world = prepared(seed, node_sizes, blocks);
    for round in 0..6 {
        let old: BTreeSet<u64> = all_references(&mut world).into_values().flatten().collect();
        if world.dice.chance(50) {
            world.checkpoint();
        }
        world.map.begin_mark();
        let mut handed_out = References::new();
        let mut busy = world.dice.below(60);
        loop {
            let step = match round % 3 {
                0 => world.map.mark_step_within(9 + round, 1 + round / 3),
                _ => world.map.mark_step(1 + round),
            };
            assert!(round % 3 > 0 || step.leaves.len() <= 1 + round / 3);
            for (id, node) in step.leaves {
                handed_out.entry(id).or_default().extend(references(&node));
            }
            for id in step.absent {
                // Those that are not fetched now may be gone when they are.
                if busy == 0 || world.dice.chance(50) {
                    world.fetch(id);
                }
            }
            if busy > 0 {
                busy -= 1;
                match world.dice.below(20) {
                    0 => world.checkpoint(),
                    1..=3 => drop(world.map.evict(1 << 12)),
                    4 => relocate(&mut world),
                    _ => (0..world.dice.below(4)).for_each(|_| world.step(8)),
                }
                continue;
            }
            if step.done {
                break;
            }
        }
        // Something may have been done after the last step.
        loop {
            let step = world.map.mark_step(7);
            for (id, node) in step.leaves {
                handed_out.entry(id).or_default().extend(references(&node));
            }
            step.absent.iter().for_each(|id| world.fetch(*id));
            if step.done {
                break;
            }
        }
        for (leaf, found) in all_references(&mut world) {
            for pba in found.intersection(&old) {
                let seen = handed_out.get(&leaf).is_some_and(|known| known.contains(pba));
                assert!(seen, "{leaf} refers to old block {pba} and was not handed out with it");
            }
        }
        world.map.end_mark();
        // Sweeping goes on while operations do; what they make is kept, and what died before is gone.
        for turn in 0.. {
            let more = world.map.sweep(1);
            world.verify();
            match world.dice.below(12) {
                0 => world.checkpoint(),
                1 => drop(world.map.evict(1 << 12)),
                2 => relocate(&mut world),
                3 => drop(world.map.free_some(3)),
                _ => world.step(8),
            }
            if !more || turn == 40 {
                break;
            }
        }
        world.compare();
    }
    // From a quiet state, all that is not reachable goes.
    world.mark();
    let reachable = world.reachable().len();
    assert_eq!(world.map.usage().nodes, reachable);
    assert_eq!(world.mark(), 0, "and then there is nothing left to free");
    while world.map.free_some(1) {}
    world.verify();
}

#[test]
fn marks_hold_under_mutation_of_tall_trees() {
    for_seeds(0..60, |seed| mark_under_mutation(seed, (8, 4), 300));
}

#[test]
fn marks_hold_under_mutation_of_full_size_nodes() {
    for_seeds(100..106, |seed| mark_under_mutation(seed, (512, 128), 6000));
}

/// Whoever runs the mark knows leaves by id: no id changes its meaning while it runs.
#[test]
fn ids_are_not_used_again_while_a_mark_knows_them() {
    for_seeds(400..420, |seed| {
        let mut world = prepared(seed, (8, 4), 300);
        world.map.begin_mark();
        let mut gone: Vec<NodeId> = Vec::new();
        for _ in 0..100 {
            gone.extend(world.map.mark_step(3).leaves.iter().map(|(id, _)| *id));
            world.step(8);
            while world.map.free_some(10) {}
        }
        gone.retain(|id| world.map.leaf(*id).unwrap().is_none());
        assert!(!gone.is_empty(), "some leaves died");
        let before = world.map.usage().nodes;
        for _ in 0..200 {
            world.create(1);
        }
        assert_eq!(world.map.usage().nodes, before + 200);
        for id in &gone {
            assert_eq!(world.map.leaf(*id), Ok(None), "{id} was used again");
        }
        while !world.map.mark_step(100).done {}
        world.map.end_mark();
        while world.map.sweep(1) {}
        world.verify();
        for _ in 0..200 {
            world.create(1);
        }
        assert!(gone.iter().any(|id| world.map.leaf(*id).unwrap().is_some()), "now they are");
    });
}

/// What a mark did not visit is gone when it ends, though it takes memory until it is swept.
#[test]
fn what_is_not_swept_yet_is_gone_all_the_same() {
    for_seeds(500..520, |seed| {
        let mut world = prepared(seed, (8, 4), 300);
        world.mark();
        let trees: Vec<u32> = world.model.keys().copied().collect();
        let snapshots: Vec<u32> = trees.iter().map(|tree| world.snapshot(*tree)).collect();
        for tree in &trees {
            let blocks = world.model[tree].len() as u64;
            if blocks > 0 {
                world.write(*tree, 0, blocks);
            }
        }
        let before = all_references(&mut world);
        for snapshot in snapshots {
            world.drop_tree(snapshot);
        }
        world.map.begin_mark();
        loop {
            let step = world.map.mark_step(100);
            if step.done {
                break;
            }
            step.absent.iter().for_each(|id| world.fetch(*id));
        }
        let nodes = world.map.usage().nodes;
        world.map.end_mark();
        assert_eq!(world.map.usage().nodes, nodes, "nothing is freed at once");
        let reachable = world.reachable();
        let gone: Vec<NodeId> =
            before.into_keys().filter(|leaf| !reachable.contains(leaf)).collect();
        assert!(!gone.is_empty());
        for leaf in &gone {
            assert_eq!(world.map.leaf(*leaf), Ok(None));
            assert_eq!(world.map.address(*leaf), None);
        }
        world.map.sweep(1);
        // The next checkpoint, and the next mark, come to the end of it.
        match seed % 3 {
            0 => world.checkpoint(),
            1 => world.map.begin_mark(),
            _ => {}
        }
        world.map.abort_mark();
        assert_eq!(world.map.usage().nodes, reachable.len());
        assert!(!world.map.sweep(1), "nothing is left to sweep");
        world.verify();
        world.compare();
    });
}

#[test]
fn an_aborted_mark_frees_nothing_and_leaves_no_trace() {
    for_seeds(200..220, |seed| {
        let mut world = prepared(seed, (8, 4), 300);
        let nodes = world.map.usage().nodes;
        world.map.begin_mark();
        world.map.mark_step(9);
        world.map.abort_mark();
        assert_eq!(world.map.usage().nodes, nodes);
        world.mark();
        world.verify();
        world.compare();
        assert_eq!(world.map.usage().nodes, world.reachable().len());
    });
}

/// The collector indexes the leaves that refer to its candidates once, and from then on looks only
/// at leaves that are reported.
#[test]
fn every_leaf_that_comes_to_hold_an_old_reference_is_reported() {
    for_seeds(300..340, |seed| {
        let mut world = prepared(seed, (8, 4), 300);
        world.checkpoint();
        let mut known = all_references(&mut world);
        let old: BTreeSet<u64> = known.values().flatten().copied().collect();
        world.map.track_leaves(true);
        for _ in 0..200 {
            world.step(8);
            if world.dice.chance(10) {
                world.map.evict(1 << 13);
            }
            if world.dice.chance(20) {
                let touched = world.map.take_touched();
                let distinct: BTreeSet<_> = touched.iter().collect();
                assert_eq!(distinct.len(), touched.len(), "each is reported once");
                for leaf in touched {
                    let node = world.retry(|map| map.leaf(leaf));
                    known.insert(
                        leaf,
                        node.map_or_else(BTreeSet::new, |n| references(&n).collect()),
                    );
                }
            }
        }
        for leaf in world.map.take_touched() {
            if let Some(node) = world.retry(|map| map.leaf(leaf)) {
                known.insert(leaf, references(&node).collect());
            }
        }
        for (leaf, found) in all_references(&mut world) {
            for pba in found.intersection(&old) {
                assert!(known[&leaf].contains(pba), "{leaf} came to refer to {pba} unreported");
            }
        }
        // A write in place is not news.
        world.map.track_leaves(false);
        let tree = world.create(100);
        world.map.track_leaves(true);
        world.write(tree, 50, 1);
        assert_eq!(world.map.take_touched(), []);
    });
}
