//! What clients may run ahead by, with batches of a known rhythm.

use std::time::Duration;

use mjolnir_policy::pacing::{Gate, Pacing, Rhythm};
use mjolnir_units::Instant;

const MS: Duration = Duration::from_millis(1);

/// Batches of 1,000 blocks: 100 every 5 ms, and 50 ms before the first.
fn batch(rhythm: &mut Rhythm, now: &mut Instant) {
    rhythm.expect(1_000);
    *now = *now + 50 * MS;
    for round in 0..10 {
        *now = *now + if round == 0 { Duration::ZERO } else { 5 * MS };
        rhythm.copied(*now, 100);
    }
    *now = *now + 5 * MS;
    rhythm.end(*now);
}

fn after_batches(count: usize) -> (Rhythm, Instant) {
    let (mut rhythm, mut now) = (Rhythm::default(), Instant(7));
    (0..count).for_each(|_| batch(&mut rhythm, &mut now));
    (rhythm, now)
}

#[test]
fn before_a_whole_batch_was_seen_nobody_runs_ahead() {
    for count in [0, 1] {
        let (rhythm, now) = after_batches(count);
        assert_eq!(rhythm.lead_blocks(now + 20 * MS), 0.0, "after {count}");
        assert!(!rhythm.lead_grows(now));
    }
}

#[test]
fn between_batches_the_lead_grows_at_the_mean_pace_to_half_a_batch() {
    let (mut rhythm, now) = after_batches(5);
    rhythm.expect(1_000);
    // 1,000 blocks in 100 ms, and the last round was copied 5 ms ago.
    for (passed, lead) in [(1, 60.0), (10, 150.0), (40, 450.0), (60, 500.0), (900, 500.0)] {
        let got = rhythm.lead_blocks(now + passed * MS);
        assert!((got - lead).abs() < 1.0, "{passed} ms: {got} for {lead}");
        assert_eq!(rhythm.lead_grows(now + passed * MS), lead < 500.0, "{passed} ms");
    }
}

#[test]
fn what_clients_were_ahead_by_is_made_up_for_over_the_batch() {
    let (mut rhythm, mut now) = after_batches(5);
    rhythm.expect(1_000);
    now = now + 40 * MS;
    rhythm.copied(now, 100);
    let first = rhythm.lead_blocks(now);
    for copied in 2..=10 {
        now = now + 5 * MS;
        let waited = rhythm.lead_blocks(now);
        rhythm.copied(now, 100);
        let lead = rhythm.lead_blocks(now);
        assert!(lead < waited, "a round takes back what its time gave: {lead} of {waited}");
        let left = first * f64::from(10 - copied) / 9.0;
        assert!((lead - left).abs() < 1.0, "{copied} rounds: {lead} for {left}");
    }
    assert_eq!(rhythm.lead_blocks(now), 0.0);
}

/// By turns 1,000 blocks in 100 ms and 10 in 400 ms.
#[test]
fn the_pace_is_that_of_all_blocks_in_all_the_time_but_for_rests() {
    let (mut rhythm, mut now) = after_batches(1);
    let begun = now;
    for _ in 0..40 {
        batch(&mut rhythm, &mut now);
        rhythm.expect(10);
        now = now + 400 * MS;
        rhythm.copied(now, 10);
        rhythm.end(now);
    }
    let mean = 40.0 * 1_010.0 / now.since(begun).as_secs_f64();
    let pace = rhythm.lead_blocks(now + 20 * MS) / 0.02;
    assert!((0.75..1.35).contains(&(pace / mean)), "{pace} for {mean}");
    rhythm.rest();
    assert_eq!(
        rhythm.lead_blocks(now + 900 * MS),
        0.0,
        "whoever comes after a rest waits for a batch"
    );
    assert!(!rhythm.lead_grows(now));
    now = now + 3_600_000 * MS;
    batch(&mut rhythm, &mut now);
    rhythm.expect(1_000);
    let after = (rhythm.lead_blocks(now + 20 * MS) - rhythm.lead_blocks(now)) / 0.02;
    assert!((after / pace - 1.0).abs() < 0.01, "{after} for {pace}");
}

#[test]
fn the_gate_lets_clients_have_the_lead_but_in_a_panic() {
    let mut gate = Gate::new(64);
    gate.update(Pacing { reclaim_share: 0.5, active: true, ..Pacing::default() });
    gate.client_wrote(100);
    assert!(!gate.client_may_write());
    gate.allow(50.0);
    assert!(gate.client_may_write());
    gate.client_wrote(14);
    assert!(!gate.client_may_write());
    gate.allow(1e9);
    assert!(gate.client_may_write());
    gate.update(Pacing { panic: true, reclaim_share: 1.0, active: true, ..Pacing::default() });
    assert!(!gate.client_may_write());
}
