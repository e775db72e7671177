//! Victim policies keep to the view: only candidates, none twice, within the budget, the best
//! first; and they leave alone what would win nothing.

use std::collections::BTreeMap;

use mjolnir_policy::victim::{self, CostBenefit, Greedy, SegmentView, VictimPolicy, VictimView};
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
        for name in victim::names() {
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
