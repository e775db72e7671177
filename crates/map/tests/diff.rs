//! What differs between two trees is found, and only that; what both share is not even looked at.

mod world;

use mjolnir_map::{Absent, Diff};
use mjolnir_units::{Lba, TreeId};
use world::{World, for_seeds};

/// A whole comparison, in parts of `limit` ranges, applied to the old tree's content.
fn patched(world: &mut World, old: u32, new: u32, limit: usize) -> Vec<world::Cell> {
    let (from, length) = (world.model[&old].clone(), world.length(new) as usize);
    let mut content = from.clone();
    content.resize(length, None);
    let mut next = Some(Lba(0));
    while let Some(at) = next {
        let diff: Diff = world.retry(|map| map.diff(TreeId(old), TreeId(new), at, limit));
        assert!(diff.ranges.len() <= limit);
        assert!(diff.next.is_none_or(|next| next > at), "a part makes progress");
        for range in &diff.ranges {
            assert!(range.blocks > 0 && range.lba >= at);
            for i in 0..range.blocks {
                let at = (range.lba.0 + i) as usize;
                let mapping = range.pba.map(|pba| pba.0 + i);
                assert_ne!(mapping, from.get(at).copied().flatten(), "only what differs is told");
                content[at] = mapping;
            }
        }
        next = diff.next;
        if world.dice.chance(20) {
            world.map.evict(1 << 13);
        }
    }
    content
}

#[test]
fn applied_to_the_old_tree_it_gives_the_new_one() {
    for_seeds(0..40, |seed| {
        let mut world = World::new(seed, (8, 4));
        let tree = world.create(500);
        world.write(tree, 0, 400);
        world.create(300);
        for round in 0..6 {
            for _ in 0..30 {
                world.step(6);
            }
            world.checkpoint();
            let trees = world.trees();
            for old in &trees {
                for new in &trees {
                    let limit = 1 + world.dice.below(20) as usize;
                    let found = patched(&mut world, *old, *new, limit);
                    assert_eq!(found, world.model[new], "round {round}, {old} to {new}");
                }
            }
        }
    });
}

#[test]
fn shared_subtrees_are_skipped_unseen() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(200_000);
    for i in 0..100_000 {
        world.write(volume, i * 2, 1);
    }
    let snapshot = world.snapshot(volume);
    world.write(volume, 123_456, 1);
    world.checkpoint();
    world.map.evict(usize::MAX);
    world.map.evict(usize::MAX);
    let nodes = world.map.usage().nodes;
    world.fetched = 0;
    let (old, new) = (TreeId(snapshot), TreeId(volume));
    let diff = world.retry(|map| map.diff(old, new, Lba(0), 10));
    assert_eq!(diff.ranges.len(), 0, "it stops where a node is absent, having skipped the rest");
    let mut found = Vec::new();
    let mut next = Some(Lba(0));
    while let Some(at) = next {
        let diff = world.retry(|map| map.diff(old, new, at, 10));
        found.extend(diff.ranges);
        next = diff.next;
    }
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].lba, found[0].blocks), (Lba(123_456), 1));
    assert!(nodes > 200 && world.fetched <= 6, "{} of {nodes} nodes read", world.fetched);
}

#[test]
fn an_absent_root_is_needed_at_once() {
    let mut world = World::new(1, (512, 128));
    let (a, b) = (world.create(10), world.create(10));
    world.checkpoint();
    world.map.evict(usize::MAX);
    let root = world.roots()[0].edge.child;
    assert_eq!(world.map.diff(TreeId(a), TreeId(b), Lba(0), 1), Err(Absent(root)));
}
