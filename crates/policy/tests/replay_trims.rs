//! Trims in a replay: what is given up is not moved, and is written anew as if for the first time.

use mjolnir_policy::placement::{Bins, FutureKnowledge, Together};
use mjolnir_policy::replay::{Replay, TRIM, Trigger};
use mjolnir_policy::victim::Greedy;

const BLOCKS: u32 = 1024;

/// A full drive; then blocks in a scattered order, or with every other block given up instead.
fn load(with_trims: bool) -> Vec<u32> {
    let mut load: Vec<u32> = (0..BLOCKS).collect();
    for number in 0..20 * BLOCKS {
        let block = number.wrapping_mul(2_654_435_761) >> 22;
        // Half of the drive is kept empty.
        let trimmed = with_trims && block % 2 == 1;
        load.push(if trimmed { block | TRIM } else { block });
    }
    load
}

#[test]
fn what_is_given_up_is_not_moved() {
    let trigger = Trigger::Segments(36);
    let replay = Replay { segment_blocks: 32, trigger, fill: 8 * BLOCKS as usize };
    let kept = replay.run(&load(false), &mut Greedy, Box::new(Together));
    let given_up = replay.run(&load(true), &mut Greedy, Box::new(Together));
    assert!(!kept.stuck && !given_up.stuck);
    assert!(given_up.waf() < kept.waf() - 0.3, "{} and {}", given_up.waf(), kept.waf());
    assert!(given_up.spare_mean > 0.5, "{given_up:?}");
    let [first, second] = kept.waf_halves();
    assert!((first - second).abs() < 0.2 && first.min(second) <= kept.waf(), "{first}, {second}");
    assert!(first.max(second) >= kept.waf());
    let future = FutureKnowledge::new(Bins::Logarithmic, 4, 32);
    let bound = replay.run_offline(&load(true), &mut Greedy, &future);
    assert!(bound.waf() >= 1.0 && bound.client_blocks == given_up.client_blocks);
}

#[test]
fn a_trim_of_nothing_changes_nothing() {
    let replay = Replay { segment_blocks: 32, trigger: Trigger::Segments(36), fill: 0 };
    let twice: Vec<u32> = (0..BLOCKS).chain([7 | TRIM, 7 | TRIM, 7]).collect();
    let report = replay.run(&twice, &mut Greedy, Box::new(Together));
    assert_eq!((report.client_blocks, report.moved_blocks), (u64::from(BLOCKS) + 1, 0));
    assert!(report.spare_mean >= 0.0, "{report:?}");
}
