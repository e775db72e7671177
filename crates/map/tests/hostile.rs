//! Roots and images that no map wrote: none makes it panic, take absurd memory, or lose its order.
//!
//! The corpus in `fuzz/corpus/map` is also what the fuzzer starts from (`fuzz/targets/map.rs`).
//! `MJOLNIR_WRITE_CORPUS=1 cargo test -p mjolnir-map --test hostile` writes its seeds anew.

mod drive;
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod world;

use drive::{drive, input};
use mjolnir_map::root_encode;
use mjolnir_units::TreeId;
use world::World;

/// The image of a whole map: a tall tree that shares nodes with a snapshot, or a lone leaf.
fn whole(tall: bool) -> Vec<u8> {
    let mut world = World::new(7, (8, 4));
    let tree = world.create(if tall { 200 } else { 9 });
    for i in 0..if tall { 40 } else { 3 } {
        world.write(tree, i * 3, 2);
    }
    if tall {
        world.snapshot(tree);
        world.write(tree, 77, 30);
    }
    world.checkpoint();
    let root = world.saved.roots.iter().find(|(id, _)| *id == TreeId(tree)).unwrap().1;
    let images: Vec<Vec<u8>> = world.media.values().cloned().collect();
    input(&root_encode(&root), &images)
}

/// The image of a leaf with a base, and that of one that has it in common.
fn edited() -> Vec<u8> {
    let mut world = World::new(7, (64, 4));
    let tree = world.create(60);
    (0..60).for_each(|at| world.write(tree, at * 7 % 60, 1));
    for at in 0..3 {
        world.snapshot(tree);
        world.write(tree, at * 11, 1);
    }
    world.checkpoint();
    assert!(!world.bases.is_empty(), "no image refers to another");
    let root = world.saved.roots.iter().find(|(id, _)| *id == TreeId(2)).unwrap().1;
    let images: Vec<Vec<u8>> = world.media.values().cloned().collect();
    input(&root_encode(&root), &images)
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (leaf, tall, edited) = (whole(false), whole(true), edited());
    let with = |bytes: &[u8], at: usize, value: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    // Root 16, length 2, then the image of the first node.
    let image = 18;
    vec![
        ("leaf", leaf.clone()),
        ("tall", tall.clone()),
        ("leaf_of_other_blocks", with(&leaf, 0, &[8])),
        ("leaf_lying_count", with(&leaf, image + 12, &[0xff; 4])),
        ("leaf_word_past_the_end", with(&leaf, image + 24, &[0xff; 7])),
        ("leaf_empty_hole", with(&leaf, image + 24, &[0, 0, 0, 0, 0, 0, 0, 0x80])),
        ("leaf_called_inner", with(&leaf, image + 5, &[1])),
        ("root_of_level_15", with(&tall, 12, &[15])),
        ("root_leads_to_a_leaf", with(&tall, 12, &[0])),
        ("root_leads_nowhere", with(&tall, 8, &[0xff; 4])),
        ("edited_words_past_the_end", with(&edited, image + 28, &[0xff; 4])),
        ("edited_lying_count", with(&edited, image + 12, &[0xff; 4])),
        ("edited", edited),
        ("node_twice", [&leaf[..], &leaf[16..]].concat()),
        ("tall_cut", tall[..tall.len() / 2].to_vec()),
        ("root_alone", leaf[..16].to_vec()),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn the_corpus_holds_the_seeds() {
    replay::seeds::hold("map", seeds());
}

#[test]
fn whole_maps_are_taken_in_and_damaged_ones_are_not() {
    for (name, bytes) in seeds() {
        let expected = matches!(name, "leaf" | "tall" | "node_twice");
        assert_eq!(drive(&bytes), expected, "{name}");
    }
}

#[test]
fn every_file_of_the_corpus_and_its_mutations_are_endured() {
    // A page of the table with its slots, what the operations copy, and the marks of `verify`.
    let allowed = |length: usize| 16 * length + (256 << 10);
    replay::replay("map", 2, 20_000, allowed, |bytes| {
        drive(bytes);
    });
}
