//! Scanning keeps to its share of a processor, and to a larger one as space gets scarce.

use std::time::Duration;

use mjolnir_policy::pacing::ScanBudget;

/// Scans in pieces of `piece`, resting as told, for ten seconds; returns the share used.
fn used_share(budget: &mut ScanBudget, piece: Duration, pressure: f64) -> f64 {
    let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
    while wall < Duration::from_secs(10) {
        cpu += piece;
        wall += piece;
        let mut rest = budget.rest(piece, piece, pressure);
        while !rest.is_zero() {
            wall += rest;
            rest = budget.rest(Duration::ZERO, rest, pressure);
        }
    }
    cpu.as_secs_f64() / wall.as_secs_f64()
}

#[test]
fn the_share_is_kept_whatever_the_piece() {
    for micros in [50, 1_000, 20_000, 70_000] {
        for (pressure, share) in [(0.0, 0.3), (0.5, 0.65), (1.0, 1.0), (7.0, 1.0)] {
            let used =
                used_share(&mut ScanBudget::default(), Duration::from_micros(micros), pressure);
            assert!((used - share).abs() < 0.02, "{micros} µs at {pressure}: {used}");
        }
    }
}

#[test]
fn a_whole_processor_means_no_rest() {
    let mut budget = ScanBudget::default();
    let piece = Duration::from_millis(1);
    assert_eq!(budget.rest(piece, piece, 1.0), Duration::ZERO);
}

#[test]
fn idle_time_is_not_saved_up_without_end() {
    let mut budget = ScanBudget::default();
    assert_eq!(budget.rest(Duration::ZERO, Duration::from_secs(3_600), 0.0), Duration::ZERO);
    let piece = Duration::from_millis(20);
    assert!(budget.rest(piece, piece, 0.0) > Duration::ZERO);
}

#[test]
fn a_rest_is_short_enough_to_notice_a_rise_in_pressure_and_is_then_cut() {
    let mut budget = ScanBudget::default();
    let long = Duration::from_secs(2);
    let rest = budget.rest(long, long, 0.0);
    assert!(rest <= Duration::from_millis(100), "{rest:?}");
    let calm = budget.rest(Duration::ZERO, rest, 0.0);
    let mut pressed = ScanBudget::default();
    pressed.rest(Duration::from_millis(20), Duration::from_millis(20), 0.0);
    let cut = pressed.rest(Duration::ZERO, Duration::from_millis(10), 1.0);
    assert!(cut < calm, "{cut:?} {calm:?}");
}

#[test]
fn several_workers_together_may_have_more_than_one_processor() {
    let mut budget = ScanBudget::new(0.3, 4.0);
    assert_eq!(budget.share(1.0), 4.0);
    let wall = Duration::from_millis(10);
    assert_eq!(budget.rest(4 * wall, wall, 1.0), Duration::ZERO);
    assert!(budget.rest(5 * wall, wall, 1.0) > Duration::ZERO);
    assert_eq!(ScanBudget::new(0.5, 0.1).share(1.0), 0.5);
}
