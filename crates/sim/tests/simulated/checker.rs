//! The checkers catch what they are for.
//!
//! A store that is plainly right passes every seed; the same store with one bug fails some, with
//! words that fit the bug.

use mjolnir_sim::{Report, RunSize, Swarm, Trouble, run_swarm};

use crate::toy::{Bug, Toy, have};

/// A run that suits a store which never collects.
fn run(seed: u64) -> Report {
    let mut swarm = Swarm::draw(seed, RunSize::Short);
    (swarm.info.zone_blocks, swarm.info.zones) = (256, 400);
    swarm.info.append_blocks_max = 256;
    swarm.info.open_zones_max = None;
    swarm.trouble = Trouble::None;
    swarm.io_blocks = swarm.io_blocks.min(16);
    swarm.volume_blocks = 200;
    run_swarm::<Toy>(seed, swarm, false, RunSize::Short)
}

#[test]
fn a_right_store_passes() {
    have(Bug::None);
    for seed in 0..60 {
        let report = run(seed);
        assert!(
            report.failure.is_none(),
            "{report}\n{:#?}",
            report.failure.as_ref().map(|f| &f.tail)
        );
    }
}

#[test]
fn a_run_repeats_byte_for_byte_and_seeds_differ() {
    have(Bug::None);
    for seed in 0..6 {
        let (one, two) = (run(seed), run(seed));
        assert_eq!((one.trace, one.events, one.tally), (two.trace, two.events, two.tally));
        assert_ne!(one.trace, run(seed + 100).trace);
    }
}

/// Runs seeds until one fails with a message that has one of the marks. The same mistake may show in
/// other ways before: of a long write that was cut, whole blocks may be missing as well as parts.
fn is_caught(bug: Bug, marks: &[&str]) {
    have(bug);
    let mut other = None;
    let failure = (0..200).find_map(|seed| {
        let failure = run(seed).failure?;
        let marked = marks.iter().any(|mark| failure.message.contains(mark));
        if marked {
            return Some(failure);
        }
        other = Some(failure.message);
        None
    });
    have(Bug::None);
    let failure = failure.unwrap_or_else(|| panic!("{bug:?} was not caught, but: {other:?}"));
    println!("{bug:?}: {}", failure.message);
    assert!(failure.command.starts_with("cargo xtask sim --seed "), "{}", failure.command);
}

#[test]
fn a_flush_that_does_nothing_is_caught() {
    is_caught(Bug::LazyFlush, &["durable was"]);
}

#[test]
fn a_flush_that_leaves_a_gap_before_it_is_caught() {
    is_caught(Bug::HastyFlush, &["durable was"]);
}

#[test]
fn a_torn_block_is_caught() {
    is_caught(Bug::TornBlock, &["sectors of"]);
}

#[test]
fn survivors_behind_a_gap_are_caught() {
    is_caught(Bug::SkippedGap, &["not a prefix", "happened in part", "after recovery"]);
}

#[test]
fn a_stale_read_is_caught() {
    is_caught(Bug::StaleRead, &["a read of", "durable was"]);
}

#[test]
fn a_lost_update_within_a_block_is_caught() {
    is_caught(Bug::LostUpdate, &["no order of the writes"]);
}

#[test]
fn a_vector_done_in_part_is_caught() {
    is_caught(Bug::TornVector, &["happened in part"]);
}

#[test]
fn a_snapshot_with_writes_of_later_is_caught() {
    is_caught(Bug::LateSnapshot, &["the copy", "a read of volume", "volume"]);
}

#[test]
fn a_trim_that_comes_undone_is_caught() {
    is_caught(Bug::ForgottenTrim, &["durable was"]);
}

#[test]
fn a_deletion_that_comes_undone_is_caught() {
    is_caught(Bug::ForgottenDeletion, &["deleted durably", "durable was"]);
}

#[test]
fn a_clone_of_the_wrong_range_is_caught() {
    is_caught(Bug::SkewedClone, &["a read of", "durable was"]);
}
