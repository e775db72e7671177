//! Victim policies keep to the view: only candidates, none twice, within the budget, the best
//! first; and they leave alone what would win nothing.

use std::collections::BTreeMap;

use mjolnir_policy::victim::{
    self, AgeThreshold, CostBenefit, DChoices, Fifo, Greedy, Random, SegmentView, VictimPolicy,
    VictimView, WindowedGreedy,
};
use mjolnir_units::ZoneId;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

const CAPACITY: u64 = 100;

fn segment(zone: u32, live_blocks: u64, youngest_sequence: u64) -> SegmentView {
    SegmentView {
        zone: ZoneId(zone),
        live_blocks,
        used_blocks: CAPACITY,
        capacity_blocks: CAPACITY,
        sealed_sequence: youngest_sequence,
        youngest_sequence,
    }
}

fn view(segments: &[SegmentView]) -> VictimView<'_> {
    VictimView {
        segments,
        now_sequence: 10_000,
        threshold: 0.9,
        segments_max: usize::MAX,
        live_blocks_max: u64::MAX,
    }
}

fn zones(numbers: &[u32]) -> Vec<ZoneId> {
    numbers.iter().copied().map(ZoneId).collect()
}

#[test]
fn greedy_takes_the_emptiest_first() {
    let segments = [segment(0, 60, 1), segment(1, 10, 2), segment(2, 0, 3), segment(3, 95, 4)];
    assert_eq!(Greedy.choose(&view(&segments)), zones(&[2, 1, 0]), "zone 3 is above the threshold");
}

#[test]
fn equally_empty_segments_go_oldest_first() {
    let segments = [segment(0, 10, 30), segment(1, 10, 10), segment(2, 10, 20)];
    assert_eq!(Greedy.choose(&view(&segments)), zones(&[1, 2, 0]));
}

#[test]
fn cost_benefit_prefers_old_data_to_slightly_emptier_young_data() {
    let segments = [segment(0, 50, 9_900), segment(1, 60, 100), segment(2, 0, 9_999)];
    assert_eq!(CostBenefit.choose(&view(&segments)), zones(&[2, 1, 0]), "the dead one first");
    assert_eq!(Greedy.choose(&view(&segments)), zones(&[2, 0, 1]));
}

#[test]
fn cost_benefit_among_equal_ages_is_greedy() {
    let segments = [segment(0, 50, 10_000), segment(1, 40, 10_000), segment(2, 45, 10_000)];
    assert_eq!(CostBenefit.choose(&view(&segments)), zones(&[1, 2, 0]));
}

#[test]
fn fifo_takes_what_was_sealed_first() {
    let segments = [segment(0, 10, 30), segment(1, 70, 10), segment(2, 0, 20), segment(3, 95, 1)];
    assert_eq!(Fifo.choose(&view(&segments)), zones(&[1, 2, 0]), "zone 3 is above the threshold");
}

#[test]
fn windowed_greedy_is_fifo_with_a_window_of_one_and_greedy_with_one_of_all() {
    let segments: Vec<_> = (0..40)
        .map(|zone| segment(zone, (u64::from(zone) * 37) % 90, 1_000 + u64::from(zone)))
        .collect();
    let view = view(&segments);
    assert_eq!(WindowedGreedy::new(0.0).choose(&view), Fifo.choose(&view));
    assert_eq!(WindowedGreedy::new(1.0).choose(&view), Greedy.choose(&view));
    // A window of four: 0, 37, 74, 21, then 58 (zone 4) comes in, then 5 (zone 5), ...
    let four = VictimView { segments_max: 3, ..view };
    assert_eq!(WindowedGreedy::new(0.1).choose(&four), zones(&[0, 3, 5]));
}

#[test]
fn age_threshold_takes_the_emptiest_that_is_old_enough() {
    let segments = [segment(0, 0, 9_900), segment(1, 60, 0), segment(2, 50, 4_000)];
    let mut policy = AgeThreshold::new(0.3);
    assert_eq!(policy.choose(&view(&segments)), zones(&[2, 1, 0]), "zone 0 is young");
    assert_eq!(AgeThreshold::new(0.0).choose(&view(&segments)), Greedy.choose(&view(&segments)));
    assert_eq!(AgeThreshold::new(1.0).choose(&view(&segments)), Fifo.choose(&view(&segments)));
}

/// Each of many choices of one is a draw of its own, uniform over the candidates.
#[test]
fn random_takes_each_as_often_as_the_others() {
    let segments: Vec<_> = (0..20).map(|zone| segment(zone, 50, 1)).collect();
    let one = VictimView { segments_max: 1, ..view(&segments) };
    let (mut policy, mut counts) = (Random::seeded(5), [0u32; 20]);
    (0..20_000).for_each(|_| counts[policy.choose(&one)[0].0 as usize] += 1);
    // 1,000 each, with a standard deviation of 31.
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

/// The emptiest of `d` draws out of `n` has rank `r` with probability ((n-r)^d - (n-r-1)^d) / n^d.
#[test]
fn d_choices_takes_the_emptiest_of_d_draws() {
    let segments: Vec<_> = (0..20).map(|zone| segment(zone, u64::from(zone), 1)).collect();
    let one = VictimView { segments_max: 1, ..view(&segments) };
    for d in [1, 2, 4, 10] {
        let (mut policy, mut counts) = (DChoices::new(d, 7), [0u32; 20]);
        (0..20_000).for_each(|_| counts[policy.choose(&one)[0].0 as usize] += 1);
        for (rank, &count) in counts.iter().enumerate() {
            let above = |rank: usize| (1.0 - rank as f64 / 20.0).powi(d as i32);
            let expected = 20_000.0 * (above(rank) - above(rank + 1));
            let off = (f64::from(count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt() + 5.0, "d {d} rank {rank}: {count}, {expected}");
        }
    }
}

#[test]
fn what_does_not_fit_the_memory_budget_is_passed_over() {
    let segments = [segment(0, 30, 1), segment(1, 40, 2), segment(2, 80, 3)];
    let tight = VictimView { live_blocks_max: 75, ..view(&segments) };
    assert_eq!(Greedy.choose(&tight), zones(&[0, 1]));
    assert_eq!(CostBenefit.choose(&VictimView { live_blocks_max: 39, ..tight }), zones(&[0]));
    assert_eq!(Greedy.choose(&VictimView { segments_max: 1, ..tight }), zones(&[0]));
    assert_eq!(Greedy.choose(&VictimView { segments_max: 0, ..tight }), zones(&[]));
}

#[test]
fn a_threshold_of_one_moves_even_wholly_live_segments() {
    let segments = [segment(0, CAPACITY, 1), segment(1, CAPACITY, 2)];
    assert_eq!(Greedy.choose(&view(&segments)), zones(&[]));
    let measuring = VictimView { threshold: 1.0, ..view(&segments) };
    assert_eq!(Greedy.choose(&measuring), zones(&[0, 1]));
    assert_eq!(CostBenefit.choose(&measuring), zones(&[0, 1]));
}

/// Segments sealed early hold nothing stale; they are moved only where that frees one of them.
#[test]
fn short_segments_are_merged_but_not_moved_round_and_round() {
    let short = |zone, used| SegmentView { used_blocks: used, ..segment(zone, used, 1) };
    let one = [short(0, 20)];
    assert_eq!(Greedy.choose(&view(&one)), zones(&[]), "it would only become another short one");
    let two = [short(0, 20), short(1, 30)];
    assert_eq!(Greedy.choose(&view(&two)), zones(&[0, 1]));
    let nearly_full = [short(0, 80), short(1, 85)];
    assert_eq!(Greedy.choose(&view(&nearly_full)), zones(&[]));
    let stale = [SegmentView { live_blocks: 19, ..short(0, 20) }];
    assert_eq!(Greedy.choose(&view(&stale)), zones(&[0]));
}

#[test]
fn an_empty_store_has_no_victims() {
    for name in victim::names() {
        assert_eq!(victim::by_name(name).unwrap().choose(&view(&[])), zones(&[]), "{name}");
    }
}

fn segments() -> impl Strategy<Value = Vec<SegmentView>> {
    let one = (0..=CAPACITY, 0..=CAPACITY, 0u64..20_000, 0u64..20_000);
    prop::collection::vec(one, 0..40).prop_map(|list| {
        let numbered = list.into_iter().enumerate();
        numbered
            .map(|(zone, (a, b, sealed_sequence, youngest_sequence))| SegmentView {
                zone: ZoneId(zone as u32),
                live_blocks: a.min(b),
                used_blocks: a.max(b),
                capacity_blocks: CAPACITY,
                sealed_sequence,
                youngest_sequence,
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_policy_keeps_the_contract(
        segments in segments(),
        threshold in 0.0..1.2f64,
        segments_max in 0usize..50,
        live_blocks_max in 0u64..3_000,
    ) {
        let view = VictimView {
            segments: &segments, now_sequence: 10_000, threshold, segments_max, live_blocks_max,
        };
        let by_zone: BTreeMap<ZoneId, &SegmentView> =
            segments.iter().map(|segment| (segment.zone, segment)).collect();
        let set = ["d-choices:choices=1,seed=3", "windowed-greedy:window=0", "age-threshold:share=1"];
        for name in victim::names().chain(set) {
            let chosen = victim::by_name(name).unwrap().choose(&view);
            prop_assert_eq!(&chosen, &victim::by_name(name).unwrap().choose(&view));
            let mut reversed = segments.clone();
            reversed.reverse();
            let reordered = VictimView { segments: &reversed, ..view };
            prop_assert_eq!(&chosen, &victim::by_name(name).unwrap().choose(&reordered));

            let mut once = chosen.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), chosen.len(), "{} chose a zone twice", name);
            prop_assert!(chosen.len() <= segments_max);
            let live: u64 = chosen.iter().map(|zone| by_zone[zone].live_blocks).sum();
            prop_assert!(live <= live_blocks_max);
            for zone in &chosen {
                prop_assert!(by_zone[zone].utilization() <= threshold);
            }
            // A candidate that is left out for nothing but the budget has no room in it, or the
            // choice is full.
            if !chosen.is_empty() && chosen.len() < segments_max {
                for left in view.candidates().filter(|left| !chosen.contains(&left.zone)) {
                    prop_assert!(left.live_blocks > live_blocks_max - live);
                }
            }
        }
    }

    #[test]
    fn greedy_moves_no_more_than_any_other_choice_of_as_many(segments in segments()) {
        let view = view(&segments);
        let greedy = Greedy.choose(&VictimView { segments_max: 5, ..view });
        let live = |zone: &ZoneId| segments[zone.0 as usize].live_blocks;
        let moved: u64 = greedy.iter().map(live).sum();
        let mut least: Vec<u64> = view.candidates().map(|segment| segment.live_blocks).collect();
        least.sort_unstable();
        prop_assert_eq!(moved, least.iter().take(greedy.len()).sum::<u64>());
    }
}
