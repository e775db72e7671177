//! Memory is given back where media hold what is in it, and nowhere else; what was used lately
//! stays longest.

mod world;

use mjolnir_map::Absent;
use mjolnir_units::{Lba, TreeId};
use world::World;

/// A volume of some tens of leaves, all on media.
fn volume() -> (World, u32) {
    let mut world = World::new(1, (512, 128));
    let tree = world.create(40_000);
    for i in 0..20_000 {
        world.write(tree, i * 2, 1);
    }
    world.checkpoint();
    (world, tree)
}

#[test]
fn evicting_frees_what_was_asked_for_and_reports_it() {
    let (mut world, _) = volume();
    let before = world.map.usage().resident_bytes;
    let freed = world.map.evict(20_000);
    assert!((20_000..30_000).contains(&freed), "{freed}");
    assert_eq!(world.map.usage().resident_bytes, before - freed);
    assert_eq!(world.map.evict(usize::MAX), before - freed);
    assert_eq!(world.map.usage().resident, 0);
    world.compare();
}

#[test]
fn what_was_used_lately_is_evicted_last() {
    let (mut world, tree) = volume();
    let mut out = Vec::new();
    // The first round takes every node's second chance.
    world.map.evict(1);
    let hot: Vec<u64> = (0..40_000).step_by(13_000).collect();
    for lba in &hot {
        world.retry(|map| map.lookup(TreeId(tree), Lba(*lba), 1, &mut Vec::new()));
    }
    for _ in 0..20 {
        for lba in &hot {
            let found = world.map.lookup(TreeId(tree), Lba(*lba), 1, &mut out);
            found.expect("what is used again and again stays");
        }
        world.map.evict(1);
    }
    assert!(world.map.usage().resident_bytes > 0);
}

#[test]
fn dirty_nodes_and_those_that_someone_holds_stay() {
    let (mut world, tree) = volume();
    world.write(tree, 5, 1);
    let held = world.map.tree_root(TreeId(tree)).unwrap().edge.child;
    let root = world.map.node(held).unwrap();
    world.map.evict(usize::MAX);
    assert_eq!(world.map.usage().resident, 2, "the root, which is held, and the dirty leaf");
    assert_eq!(world.map.usage().dirty_bytes + root.bytes(), world.map.usage().resident_bytes);
    drop(root);
    world.map.evict(usize::MAX);
    assert_eq!(world.map.usage().resident, 1);
}

#[test]
fn what_is_kept_stays_until_all_let_go_and_is_changed_in_place() {
    let (mut world, tree) = volume();
    let root = world.map.tree_root(TreeId(tree)).unwrap().edge.child;
    world.map.keep(root);
    world.map.keep(root);
    for kept in [1, 1, 0] {
        world.map.evict(usize::MAX);
        assert_eq!(world.map.usage().resident, kept);
        assert_eq!(world.map.is_absent(root), kept == 0);
        if kept > 0 {
            world.map.unkeep(root);
        }
    }
    // Kept before it is brought, as who brings it does.
    world.map.keep(root);
    world.write(tree, 5, 1);
    assert_eq!(world.map.usage().frozen_bytes, 0, "no version but the newest is anywhere");
    world.compare();
    world.map.unkeep(root);
}

/// An absent node stops an operation before it changes anything.
#[test]
fn an_operation_that_finds_a_node_absent_has_changed_nothing() {
    let (mut world, tree) = volume();
    let other = world.create(40_000);
    world.checkpoint();
    let (a, b) = (TreeId(tree), TreeId(other));
    for operation in 0..7 {
        loop {
            world.map.evict(usize::MAX);
            world.map.evict(usize::MAX);
            // Fewer and fewer are absent, until it runs.
            for _ in 0..world.fetched % 12 {
                if let Err(Absent(id)) = attempt(&mut world, a, b, operation, true) {
                    world.fetch(id);
                }
            }
            let usage = world.map.usage();
            world.fetched += 1;
            match attempt(&mut world, a, b, operation, false) {
                Err(_) => {
                    let after = world.map.usage();
                    assert_eq!((after.nodes, after.dirty_bytes), (usage.nodes, usage.dirty_bytes));
                    world.verify();
                }
                Ok(()) => break,
            }
        }
        world.verify();
        world.checkpoint();
        // Back to where it was.
        world.crash();
        world.fetched = 0;
    }
}

/// Operation number `which`; `dry`: only a lookup of a place that it needs.
fn attempt(world: &mut World, a: TreeId, b: TreeId, which: u32, dry: bool) -> Result<(), Absent> {
    let map = &mut world.map;
    if dry {
        for tree in [a, b] {
            for lba in [1001, 21_001, 31_001] {
                map.lookup(tree, Lba(lba), 1, &mut Vec::new())?;
            }
        }
        return Ok(());
    }
    match which {
        0 => map.write(a, Lba(1001), mjolnir_units::Pba(1 << 30), 1),
        1 => map.write(a, Lba(1001), mjolnir_units::Pba(1 << 30), 20_000),
        2 => map.trim(a, Lba(1001), 30_000),
        3 => map.clone_range(a, Lba(1001), b, Lba(21_001), 10_000),
        4 => map.move_range(a, Lba(1001), b, Lba(21_001), 10_000),
        5 => map.move_range(a, Lba(1001), a, Lba(21_001), 10_000),
        _ => map.resize(a, 31_001),
    }
}
