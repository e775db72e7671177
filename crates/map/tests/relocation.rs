//! Repointing leaves to where their blocks were moved: all trees refer to the new places, whoever
//! holds an old version keeps it, and what got too fragmented is split by the next private change.

mod world;

use mjolnir_map::{LEAF_MAX, Relocations, Repointed, Repointer};
use mjolnir_units::{Lba, Pba, TreeId};
use world::{World, for_seeds};

/// Repoints every reachable leaf and translates the model; checks the counts.
fn relocate(world: &mut World, moves: &Relocations) {
    let mut repointer = Repointer::new(moves, world.dice.chance(50));
    for id in world.reachable() {
        let leaf = world.retry(|map| map.leaf(id));
        let expected: u64 = leaf.iter().flat_map(|leaf| leaf.extents().collect::<Vec<_>>()).fold(
            0,
            |sum, (_, blocks, pba)| {
                let moved = |at: &u64| moves.lookup(Pba(*at)).is_some();
                sum + pba.map_or(0, |at| (at.0..at.0 + blocks).filter(moved).count() as u64)
            },
        );
        let repointed = world.retry(|map| map.repoint_by(&mut repointer, id));
        assert_eq!(repointed.blocks, expected);
        assert_eq!(
            world.retry(|map| map.repoint_by(&mut repointer, id)).blocks,
            0,
            "nothing is left to repoint"
        );
    }
    for cell in world.model.values_mut().flatten() {
        if let Some((to, _)) = cell.and_then(|at| moves.lookup(Pba(at))) {
            *cell = Some(to.0);
        }
    }
}

/// Random extents of what is mapped, each to a fresh place.
fn random_moves(world: &mut World) -> Relocations {
    let mut moves = Relocations::builder();
    let mut at = 0;
    let end = world.next_pba;
    let stride = 1 + world.dice.below(60);
    while at < end {
        let blocks = (1 + world.dice.below(30)).min(end - at);
        if world.dice.chance(40) {
            moves.add(Pba(at), blocks, Pba(world.next_pba));
            world.next_pba += blocks + world.dice.below(2);
        }
        at += blocks + world.dice.below(stride);
    }
    moves.build()
}

fn random_relocations(seed: u64, node_sizes: (usize, usize), blocks: u64) {
    let mut world = World::new(seed, node_sizes);
    let tree = world.create(blocks);
    world.write(tree, 0, blocks);
    world.create(blocks);
    for _ in 0..12 {
        for _ in 0..30 {
            world.step(8);
        }
        if world.dice.chance(30) {
            world.checkpoint();
            world.map.evict(1 << 15);
        }
        let moves = random_moves(&mut world);
        relocate(&mut world, &moves);
        world.verify();
        world.compare();
        if world.dice.chance(20) {
            world.checkpoint();
            world.crash();
            world.compare();
        }
    }
}

#[test]
fn all_trees_refer_to_the_new_places() {
    for_seeds(0..40, |seed| random_relocations(seed, (8, 4), 400));
    for_seeds(100..104, |seed| random_relocations(seed, (512, 128), 6000));
}

#[test]
fn a_shared_leaf_is_repointed_once_for_all_who_share_it() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(1000);
    world.write(volume, 0, 1000);
    let snapshots: Vec<u32> = (0..2000).map(|_| world.snapshot(volume)).collect();
    let leaf = world.roots()[0].edge.child;
    let held = world.map.leaf(leaf).unwrap().unwrap();
    let nodes = world.map.usage().nodes;

    let mut moves = Relocations::builder();
    moves.add(Pba(world.model[&volume][10].unwrap()), 5, Pba(50_000));
    assert_eq!(world.map.repoint(leaf, &moves.build()).map(|done| done.blocks), Ok(5));

    assert_eq!(world.map.usage().nodes, nodes, "no node was copied");
    for tree in [volume, snapshots[0], snapshots[1999]] {
        assert_eq!(world.content(tree)[9..16].iter().filter(|c| **c >= Some(50_000)).count(), 5);
    }
    assert_eq!(held.extents().count(), 1, "a walker keeps the version that it holds");
    assert_eq!(world.map.usage().frozen_bytes, held.bytes(), "and it is accounted for");
    drop(held);
    world.map.forget_all_superseded();
    assert_eq!(world.map.usage().frozen_bytes, 0);
}

#[test]
fn a_leaf_is_not_torn_to_more_words_than_its_image_has_room_for() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(100_000);
    world.write(volume, 0, 60_000);
    world.write(volume, 70_000, 10);
    let leaf = world.roots()[0].edge.child;
    let [first, other] = [0, 70_000].map(|lba| world.model[&volume][lba].unwrap());
    let torn = |every: u64| {
        let mut moves = Relocations::builder();
        for at in (0..60_000).step_by(every as usize) {
            moves.add(Pba(first + at), every / 2, Pba(200_000 + at));
        }
        moves.build()
    };
    let refused = world.map.repoint(leaf, &torn(2)).unwrap();
    assert_eq!(refused, Repointed { blocks: 0, left: vec![Pba(first)] });
    world.compare();
    let mut moves = Relocations::builder();
    moves.add(Pba(other), 10, Pba(400_000));
    assert_eq!(world.map.repoint(leaf, &moves.build()).map(|done| done.blocks), Ok(10));
    assert_eq!(world.map.repoint(leaf, &torn(4)).map(|done| done.blocks), Ok(30_000));
    world.checkpoint();
    world.map.evict(usize::MAX);
    world.verify();
}

#[test]
fn a_fragmented_leaf_is_split_by_the_next_private_change() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(20_000);
    world.write(volume, 0, 20_000);
    let leaf = world.roots()[0].edge.child;
    let mut moves = Relocations::builder();
    let first = world.model[&volume][0].unwrap();
    for i in 0..10_000 {
        moves.add(Pba(first + 2 * i), 1, Pba(100_000 + 2 * i));
    }
    let moves = moves.build();
    assert_eq!(world.map.repoint(leaf, &moves).map(|done| done.blocks), Ok(10_000));
    for cell in world.model.get_mut(&volume).unwrap() {
        *cell = cell.map(|at| moves.lookup(Pba(at)).map_or(at, |(to, _)| to.0));
    }
    world.compare();
    let large = |world: &mut World| {
        let ids: Vec<_> = world.reachable().into_iter().collect();
        let sizes = ids.iter().map(|id| world.map.node(*id).unwrap().entries().len());
        sizes.filter(|size| *size > LEAF_MAX).count()
    };
    assert_eq!(large(&mut world), 1);
    let snapshot = world.snapshot(volume);
    world.checkpoint();
    world.map.evict(usize::MAX);
    world.write(volume, 777, 1);
    world.verify();
    world.compare();
    assert_eq!(large(&mut world), 1, "the snapshot's stays as it is");
    world.drop_tree(snapshot);
    world.mark();
    assert_eq!(large(&mut world), 0, "the volume's copy was split");
}

#[test]
fn what_should_have_moved_and_did_not_is_told() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(100);
    world.write(volume, 0, 100);
    let leaf = world.roots()[0].edge.child;
    let first = Pba(world.model[&volume][0].unwrap());
    let mut moves = Relocations::builder();
    moves.empties(first, 50).add(first, 20, Pba(5000)).add(first.plus(21), 79, Pba(6000));
    let done = world.map.repoint(leaf, &moves.build()).unwrap();
    assert_eq!((done.blocks, done.left), (99, vec![first.plus(20)]));
    let dirty = world.map.unwritten_bytes();
    world.checkpoint();
    let mut nothing = Relocations::builder();
    nothing.empties(first.plus(20), 1);
    let done = world.map.repoint(leaf, &nothing.build()).unwrap();
    assert_eq!((done.blocks, done.left), (0, vec![first.plus(20)]));
    assert!(dirty > 0 && world.map.unwritten_bytes() == 0, "a leaf that stays is not dirty");
    // Of several that are to be emptied none hides another: of single blocks, and of extents.
    let mut both = Relocations::builder();
    both.empties(first.plus(20), 1).empties(Pba(6000), 10).empties(Pba(6050), 10);
    both.add(Pba(6000), 9, Pba(7000));
    let done = world.map.repoint(leaf, &both.build()).unwrap();
    assert_eq!(done.blocks, 9);
    let zones: Vec<u64> = done.left.iter().map(|at| at.0 / 10).collect();
    assert_eq!(zones, [(first.0 + 20) / 10, 600], "the first of each word");
    let mut singles = Relocations::builder();
    for i in 0..10 {
        singles.add(Pba(6010 + i), 1, Pba(8000 + 2 * i));
    }
    world.map.repoint(leaf, &singles.build()).unwrap();
    let mut both = Relocations::builder();
    both.empties(Pba(8000), 5).empties(Pba(8010), 5);
    let done = world.map.repoint(leaf, &both.build()).unwrap();
    assert_eq!(done.left, [8000, 8002, 8004, 8010, 8012, 8014].map(Pba));
}

#[test]
fn what_is_gone_is_repointed_without_effect() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(10);
    world.write(volume, 0, 10);
    let leaf = world.roots()[0].edge.child;
    let mut moves = Relocations::builder();
    moves.add(Pba(0), 100, Pba(1000));
    let moves = moves.build();
    world.map.trim(TreeId(volume), Lba(0), 10).unwrap();
    assert_eq!(
        world.map.repoint(leaf, &moves).map(|done| done.blocks),
        Ok(0),
        "it refers to none any more"
    );
    world.drop_tree(volume);
    assert_eq!(world.map.leaf(leaf), Ok(None), "it is as good as gone");
    world.map.free_some(1);
    assert_eq!(world.map.repoint(leaf, &moves).map(|done| done.blocks), Ok(0), "it is gone");
    assert_eq!(world.map.leaf(leaf), Ok(None));
}

#[test]
fn extents_that_come_to_lie_next_to_each_other_become_one() {
    let mut world = World::new(1, (512, 128));
    let volume = world.create(100);
    for i in 0..50 {
        world.map.write(TreeId(volume), Lba(i * 2), Pba(1000 - 10 * i), 2).unwrap();
    }
    let leaf = world.roots()[0].edge.child;
    let mut moves = Relocations::builder();
    for i in 0..50 {
        moves.add(Pba(1000 - 10 * i), 2, Pba(5000 + 2 * i));
    }
    assert_eq!(world.map.repoint(leaf, &moves.build()).map(|done| done.blocks), Ok(100));
    let node = world.map.leaf(leaf).unwrap().unwrap();
    assert_eq!(node.extents().collect::<Vec<_>>(), [(0, 100, Some(Pba(5000)))]);
}

#[test]
fn a_change_across_a_fragmented_leaf_splits_it_too() {
    for operation in 0..3 {
        let mut world = World::new(1, (16, 16));
        let (volume, other) = (world.create(2000), world.create(2000));
        world.write(volume, 0, 2000);
        for i in 0..1000 {
            world.write(other, 2 * i, 1);
        }
        let leaf = world.roots()[0].edge.child;
        let (mut moves, first) = (Relocations::builder(), world.model[&volume][0].unwrap());
        for i in 0..1000 {
            moves.add(Pba(first + 2 * i), 1, Pba(100_000 + 2 * i));
        }
        let moves = moves.build();
        world.map.repoint(leaf, &moves).unwrap();
        for cell in world.model.get_mut(&volume).unwrap() {
            *cell = cell.map(|at| moves.lookup(Pba(at)).map_or(at, |(to, _)| to.0));
        }
        match operation {
            0 => world.clone_range(other, 101, volume, 555, 333),
            1 => world.move_range(volume, 101, other, 555, 1333),
            _ => world.resize(volume, 1500),
        }
        world.verify();
        world.compare();
        for id in world.reachable() {
            assert!(world.map.node(id).unwrap().entries().len() <= 16, "by operation {operation}");
        }
    }
}
