//! The share that pacing gives to reclaim: bounded, smooth, rising as space falls, nothing without
//! work, and panic only below the reserve.

use mjolnir_policy::pacing::{self, Ahead, FreeSpace, Pacing, PacingPolicy, PacingView};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

const SEGMENT: u64 = 1_000;

fn busy(free_segments: u32, reclaimable_blocks: u64) -> PacingView {
    PacingView {
        free_segments,
        retiring_segments: 0,
        open_room_blocks: 0,
        reserve_segments: 10,
        total_segments: 1_000,
        segment_blocks: SEGMENT,
        reclaimable_blocks,
        released_blocks: 0,
        much_deleted: false,
        client_work_waiting: true,
        client_work_under_way: true,
        reclaim_work_waiting: true,
        start_utilization: 0.5,
    }
}

fn fresh(view: &PacingView) -> Pacing {
    FreeSpace::default().decide(view)
}

/// Policies whose parameters change what they do.
const SET: [&str; 2] = ["free-space:power=1,ramp=1", "free-space:power=16"];

#[test]
fn reclaim_rests_below_the_start_utilization() {
    let pacing = fresh(&busy(510, 200 * SEGMENT));
    assert_eq!(pacing, Pacing::default());
    assert!(fresh(&busy(350, 200 * SEGMENT)).active);
}

#[test]
fn reclaim_rests_with_nothing_to_win_even_on_a_full_store() {
    for name in pacing::names().chain(SET) {
        let decision = pacing::by_name(name).unwrap().decide(&busy(3, 0));
        assert_eq!(decision, Pacing::default(), "{name}");
    }
}

/// The closed form: for victims of utilization u the share settles at u, with the free space that
/// the documentation promises; so a share of at least u is reached before the reserve.
#[test]
fn the_share_reaches_any_victim_utilization_above_the_reserve() {
    for utilization in [0.1f64, 0.5, 0.8, 0.9, 0.95] {
        let garbage = 100.0;
        let slack = garbage * (utilization.powf(-1.0 / 3.0) - 1.0);
        let whole = slack.floor();
        let view = PacingView {
            open_room_blocks: ((slack - whole) * SEGMENT as f64) as u64,
            ..busy(10 + whole as u32, garbage as u64 * SEGMENT)
        };
        let share = fresh(&view).reclaim_share;
        assert!((share - utilization).abs() < 0.01, "u {utilization} share {share}");
        assert!(view.free_segments >= view.reserve_segments);
    }
}

#[test]
fn with_only_the_reserve_left_reclaim_has_everything_without_panic() {
    let pacing = fresh(&busy(10, 5 * SEGMENT));
    assert_eq!(pacing.reclaim_share, 1.0);
    assert!(!pacing.panic);
}

#[test]
fn panic_begins_below_the_reserve_and_ends_one_segment_above() {
    for name in pacing::names().chain(SET) {
        let mut policy = pacing::by_name(name).unwrap();
        let seen: Vec<bool> = [11, 10, 9, 10, 11, 10]
            .into_iter()
            .map(|free| policy.decide(&busy(free, 50 * SEGMENT)).panic)
            .collect();
        assert_eq!(seen, [false, false, true, true, false, false], "{name}");
    }
}

#[test]
fn a_panic_ends_when_nothing_is_left_to_win() {
    let mut policy = FreeSpace::default();
    assert!(policy.decide(&busy(5, SEGMENT)).panic);
    assert!(!policy.decide(&busy(5, 0)).panic);
}

#[test]
fn idle_clients_leave_the_device_to_reclaim_only_where_cleaning_ahead_is_worth_while() {
    let quiet = |free, garbage| PacingView {
        client_work_waiting: false,
        client_work_under_way: false,
        ..busy(free, garbage * SEGMENT)
    };
    let scarce = fresh(&quiet(20, 100));
    assert!(scarce.idle && scarce.reclaim_share == 1.0);
    // What is cleaned while a good part of the spare space is free is fuller than it need be.
    assert!(!fresh(&quiet(60, 100)).idle);
    let plenty = fresh(&quiet(300, 100));
    assert!(!plenty.idle && plenty.reclaim_share < 0.1);
    // But whoever deletes wants the space back.
    let released = |blocks| fresh(&PacingView { released_blocks: blocks, ..quiet(60, 100) });
    assert!(released(SEGMENT).idle && !released(SEGMENT - 1).idle);
    // Down to the start, before which pressure fades; not beyond.
    let near_start = |free| fresh(&PacingView { released_blocks: SEGMENT, ..quiet(free, 100) });
    let [above, below] = [near_start(498), near_start(502)];
    assert!(above.pressure < 0.02 && above.active && above.idle);
    assert!(!below.active && !below.idle);
    // Only a mark can tell how much that is.
    let deleted = |free| fresh(&PacingView { much_deleted: true, ..quiet(free, 0) });
    assert!(deleted(498).active && !deleted(498).idle && !deleted(502).active);
    let waited_for = fresh(&busy(20, 100 * SEGMENT));
    assert!(waited_for.ahead == Ahead::AtRest && !waited_for.idle, "a client waits");
    // What only waits for company keeps reclaim from cleaning ahead, but not from what was deleted.
    let lingers = |view| fresh(&PacingView { client_work_waiting: true, ..view });
    assert!(!lingers(quiet(20, 100)).idle);
    assert!(lingers(PacingView { released_blocks: SEGMENT, ..quiet(60, 100) }).idle);
}

#[test]
fn activity_has_hysteresis() {
    let mut policy = FreeSpace::default();
    let near = |garbage: u64| busy(210, garbage * SEGMENT);
    assert!(!policy.decide(&near(8)).active); // pressure 0.038
    assert!(policy.decide(&near(20)).active); // 0.09
    assert!(policy.decide(&near(8)).active, "between the two thresholds it stays as it was");
    assert!(!policy.decide(&near(2)).active);
}

#[test]
fn a_start_near_the_reserve_still_leaves_room_to_react() {
    let view = PacingView { start_utilization: 0.999, ..busy(12, 50 * SEGMENT) };
    assert!(fresh(&view).reclaim_share > 0.5);
}

fn views() -> impl Strategy<Value = PacingView> {
    let space = (1u32..2_000, 0u32..50, 0u64..SEGMENT, 0.0..1.0f64, 0.0..1.0f64);
    (space, any::<bool>(), any::<bool>(), 0.0..1.0f64, 0.0..1.0f64).prop_map(
        |((total, reserve, room, free, garbage), client, reclaim, start, deleted)| {
            let free_segments = (f64::from(total) * free) as u32;
            let rest = u64::from(total - free_segments) * SEGMENT;
            PacingView {
                free_segments,
                retiring_segments: 0,
                open_room_blocks: room,
                reserve_segments: reserve.min(total / 4),
                total_segments: total,
                segment_blocks: SEGMENT,
                reclaimable_blocks: (rest as f64 * garbage) as u64,
                released_blocks: (rest as f64 * garbage * deleted) as u64,
                much_deleted: deleted > 0.5,
                client_work_waiting: client,
                client_work_under_way: client,
                reclaim_work_waiting: reclaim,
                start_utilization: start,
            }
        },
    )
}

proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(2), cases: 2_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn shares_are_bounded_and_panic_only_begins_below_the_reserve(view in views()) {
        for name in pacing::names().chain(SET) {
            let pacing = pacing::by_name(name).unwrap().decide(&view);
            prop_assert!((0.0..=1.0).contains(&pacing.reclaim_share), "{pacing:?}");
            prop_assert!((0.0..=1.0).contains(&pacing.pressure), "{pacing:?}");
            if pacing.panic {
                prop_assert!(view.free_segments < view.reserve_segments);
                prop_assert!(view.reclaimable_blocks > 0);
                prop_assert_eq!(pacing.reclaim_share, 1.0);
            }
            if !view.reclaim_work_waiting && !pacing.panic {
                prop_assert_eq!(pacing.reclaim_share, 0.0);
            }
            prop_assert!(pacing.active || pacing.reclaim_share == 0.0);
        }
    }

    #[test]
    fn less_free_space_never_means_a_smaller_share(view in views()) {
        for name in pacing::names().chain(SET) {
            let mut last = Pacing::default();
            for free_segments in (0..=view.free_segments).rev().take(200) {
                let less = PacingView { free_segments, ..view };
                let pacing = pacing::by_name(name).unwrap().decide(&less);
                prop_assert!(pacing.reclaim_share >= last.reclaim_share, "{last:?} {pacing:?}");
                prop_assert!(pacing.pressure >= last.pressure, "{last:?} {pacing:?}");
                last = pacing;
            }
        }
    }

    /// A hundredth of a segment of free space moves the share by next to nothing.
    #[test]
    fn the_share_is_smooth_above_the_reserve(view in views()) {
        let view = PacingView {
            free_segments: view.free_segments.max(view.reserve_segments),
            reclaimable_blocks: view.reclaimable_blocks.max(3 * SEGMENT),
            client_work_waiting: true,
            client_work_under_way: true,
            ..view
        };
        for room in (0..SEGMENT - 10).step_by(10) {
            let here = fresh(&PacingView { open_room_blocks: room, ..view });
            let there = fresh(&PacingView { open_room_blocks: room + 10, ..view });
            prop_assert!((here.reclaim_share - there.reclaim_share).abs() < 0.03);
        }
    }
}
