//! Leaves that hold words in common: what that saves, in memory and on media, and that it does not
//! show otherwise.

mod world;

use std::collections::BTreeSet;

use mjolnir_map::{BaseBefore, Relocations, Repointer, unwritten_bytes_of, with_one_base};
use mjolnir_units::{Lba, Pba, TreeId};
use world::{Dice, World, for_seeds};

/// A volume of single blocks with many snapshots, each after a write of one; its tree.
fn diverged(world: &mut World, blocks: u64, snapshots: u64) -> u32 {
    let tree = world.create(blocks);
    let mut order: Vec<u64> = (0..blocks).collect();
    for at in 0..blocks as usize {
        order.swap(at, world.dice.below(blocks) as usize);
    }
    for lba in order {
        world.write(tree, lba, 1);
    }
    for _ in 0..snapshots {
        let lba = world.dice.below(blocks);
        world.write(tree, lba, 1);
        world.snapshot(tree);
    }
    tree
}

/// Everything goes on to other places, but what was written last.
fn all_moves(world: &World, from: u64, to: u64) -> Relocations {
    let mut builder = Relocations::builder();
    let last = world.next_pba;
    for at in (from..last).step_by(100) {
        builder.add(Pba(at), 100.min(last - at), Pba(to + at * 2));
    }
    builder.build()
}

#[test]
fn diverged_snapshots_take_a_part_of_a_leaf_each() {
    let mut world = World::new(3, (512, 128));
    let tree = diverged(&mut world, 4000, 1);
    let leaf = world.map.usage().resident_bytes / world.map.usage().leaves;
    let (before, nodes) = (world.map.usage().resident_bytes, world.map.usage().nodes);
    for _ in 0..400 {
        let lba = world.dice.below(4000);
        world.write(tree, lba, 1);
        world.snapshot(tree);
    }
    let usage = world.map.usage();
    assert_eq!(usage.nodes, nodes + 2 * 400, "a root and a leaf for each");
    let each = (usage.resident_bytes - before) / 400;
    assert!(leaf > 2500 && each < 900, "{each} bytes a snapshot, leaves take {leaf}");
    world.compare();
    world.verify();

    // As leaves that hold a little, so images.
    let unwritten = world.map.unwritten_bytes();
    let frozen = world.map.freeze();
    // However the list is divided, what is to be written of its parts is what was to be.
    for each in [1, 7, 128, usize::MAX] {
        let (mut rest, mut sum) = (&frozen.nodes[..], 0);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(each.min(rest.len()));
            sum += unwritten_bytes_of(part, after.first());
            rest = after;
        }
        assert_eq!(sum, unwritten, "in parts of {each}");
    }
    let whole: usize = frozen.nodes.iter().map(|(_, node)| node.image_bytes()).sum();
    let model = world.model.clone();
    world.place(&frozen, 0, usize::MAX);
    world.complete(frozen, model);
    let written: usize = world.media.values().map(Vec::len).sum();
    assert!(written < whole / 2, "{written} bytes for {whole}");
    assert!(written < unwritten && unwritten < whole, "{unwritten} bytes were reckoned");
    // Without its snapshots the volume's leaves hold all their words themselves again, as written to.
    for tree in world.trees().into_iter().filter(|other| *other != tree) {
        world.drop_tree(tree);
    }
    while world.map.free_some(100) {}
    world.mark();
    for lba in 0..4000 {
        world.write(tree, lba, 1);
    }
    world.mark();
    let usage = world.map.usage();
    assert!(usage.resident_bytes < before + before / 10, "{} then {before}", usage.resident_bytes);
    world.compare();
    world.verify();
}

#[test]
fn they_come_back_from_media_and_are_evicted() {
    for_seeds(0..20, |seed| {
        let mut world = World::new(seed, Dice::new(seed).pick(&[(512, 128), (64, 16), (16, 8)]));
        let tree = diverged(&mut world, 900, 60);
        world.checkpoint();
        let before = world.map.usage().resident_bytes;
        assert!(!world.bases.is_empty(), "no image refers to what lies before it");
        world.map.evict(usize::MAX);
        assert_eq!(
            world.map.usage().resident_bytes,
            0,
            "what leaves have in common goes with them"
        );
        world.compare();
        world.verify();
        let after = world.map.usage().resident_bytes;
        assert!(after < before + before / 10, "{after} bytes come back, {before} there were");
        world.write(tree, 5, 1);
        world.crash();
        world.compare();
        world.verify();
    });
}

#[test]
fn relocated_leaves_still_have_words_in_common() {
    for_seeds(0..40, |seed| {
        let mut world = World::new(seed, Dice::new(seed).pick(&[(512, 128), (64, 16)]));
        let tree = diverged(&mut world, 3000, 150);
        // What only one of them has may be gone, and then does not move.
        let trees = world.trees();
        for at in (1..trees.len()).filter(|at| seed % 2 == 0 && at % 3 > 0) {
            world.drop_tree(trees[at]);
        }
        world.mark();
        let before = world.map.usage().resident_bytes;
        let live: BTreeSet<u64> = world.model.values().flatten().flatten().copied().collect();
        let mut builder = Relocations::builder();
        for at in &live {
            builder.add(Pba(*at), 1, Pba((1 << 30) + 2 * at));
        }
        builder.empties(Pba(0), world.next_pba);
        let moves = builder.build();
        let mut repointer = Repointer::new(&moves, seed % 3 == 0);
        for id in world.reachable() {
            if world.map.leaf(id).is_ok_and(|leaf| leaf.is_some()) {
                let done = world.map.repoint_by(&mut repointer, id).unwrap();
                assert!(done.left.is_empty(), "what is live has moved");
            }
        }
        drop(repointer);
        for cells in world.model.values_mut() {
            cells.iter_mut().flatten().for_each(|at| *at = (1 << 30) + 2 * *at);
        }
        world.compare();
        world.verify();
        let after = world.map.usage().resident_bytes;
        assert!(after < before + before / 10, "{after} bytes, {before} before");
        // Some should move and do not: they are told, and stay.
        let moves = all_moves(&world, 1 << 30, 1 << 40);
        assert_eq!(moves.lookup(Pba(1 << 40)), None);
        world.write(tree, 7, 1);
        world.checkpoint();
        world.crash();
        world.compare();
    });
}

#[test]
fn a_base_that_is_not_there_is_refused() {
    let mut world = World::new(1, (512, 128));
    diverged(&mut world, 900, 60);
    let frozen = world.map.freeze();
    let groups = |count| {
        let nodes = &frozen.nodes[..];
        (0..nodes.len()).filter(|at| with_one_base(&nodes[*at..]) >= count).count()
    };
    assert!(groups(2) > 0 && groups(200) == 0, "no more than the bytes allow");
    let model = world.model.clone();
    world.place(&frozen, 0, usize::MAX);
    world.complete(frozen, model);
    world.map.evict(usize::MAX);
    let (address, base) = world.bases.pop_last().unwrap();
    let id = world.map.nodes_at(|here| here.0 == address)[0];
    let image = world.media[&address].clone();
    assert_eq!(BaseBefore::of(&image).unwrap().bytes, base.len());
    let refused = |image: &[u8], base: &[u8]| {
        let mut map = mjolnir_map::Map::load(world.saved.roots.clone(), world.saved.pages.clone());
        map.as_mut().unwrap().install_at(id, image, None, base).unwrap_err().to_string()
    };
    assert!(refused(&image, &[]).contains("words in common with others in 0 bytes"));
    assert!(refused(&image, &base[8..]).contains("words in common"));
    let with = |at: usize, value: &[u8]| {
        let mut image = image.clone();
        image[at..at + value.len()].copy_from_slice(value);
        image
    };
    assert!(refused(&with(12, &[0xff; 4]), &base).contains("edits"));
    assert!(refused(&with(28, &[0; 4]), &base).contains("0 words in common"));
    assert!(refused(&with(32, &[0xff; 4]), &base).contains("in place of word"));
    assert!(refused(&with(5, &[1]), &base).contains("level 1"));
    assert!(refused(&image[..30], &base).contains("ends after 30 bytes"));
    assert!(refused(&image[..34], &base).contains("edits in 34 bytes"));
    let longer = (base[..8].iter().rev()).position(|byte| *byte != 0).is_some();
    assert!(longer, "the first word is mapped");
    // A word of another length in place of one of a single block.
    let mut other = image.clone();
    other[32 + 4 + 6] |= 1;
    assert!(refused(&other, &base).contains("in place of word"));
    world.map.install_at(id, &image, None, &base).unwrap();
    world.map.verify().unwrap();
    let mut runs = Vec::new();
    let _ = world.map.lookup(TreeId(1), Lba(0), 1, &mut runs);
}
