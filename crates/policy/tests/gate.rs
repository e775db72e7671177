//! The gate holds clients and reclaim to the proportion that was decided, and never stops both.

use mjolnir_policy::pacing::{Gate, Pacing};

const BURST: u64 = 64;

fn gate(reclaim_share: f64) -> Gate {
    let mut gate = Gate::new(BURST);
    gate.update(Pacing { reclaim_share, active: true, ..Pacing::default() });
    gate
}

/// Both sides always have work and take turns; counts what each got.
fn race(gate: &mut Gate, client_request: u64, rounds: usize) -> (u64, u64) {
    let (mut written, mut moved) = (0, 0);
    for _ in 0..rounds {
        let client = gate.client_may_write();
        let blocks = gate.reclaim_may_move();
        assert!(client || blocks > 0, "both wait: {gate:?}");
        if client {
            gate.client_wrote(client_request);
            written += client_request;
        }
        gate.reclaim_moved(blocks);
        moved += blocks;
    }
    (written, moved)
}

#[test]
fn the_proportion_is_the_share_whatever_the_request_size() {
    for share in [0.01, 0.1, 0.5, 0.8, 0.95, 0.98] {
        for request in [1, 8, 256] {
            let (written, moved) = race(&mut gate(share), request, 50_000);
            let got = moved as f64 / (written + moved) as f64;
            assert!((got - share).abs() < 0.01, "share {share} request {request} got {got}");
        }
    }
}

#[test]
fn without_a_share_clients_never_wait_and_reclaim_does() {
    assert_eq!(race(&mut gate(0.0), 8, 100), (800, 0));
}

#[test]
fn a_share_of_one_still_lets_clients_through_unless_it_is_panic() {
    let (written, moved) = race(&mut gate(1.0), 8, 10_000);
    assert!(written > 0 && moved > 60 * written, "{written} {moved}");
    let mut panic = gate(0.0);
    panic.update(Pacing { reclaim_share: 1.0, panic: true, active: true, ..Pacing::default() });
    assert_eq!(race(&mut panic, 8, 10), (0, 10 * BURST));
}

#[test]
fn when_reclaim_runs_out_of_work_what_it_owed_is_forgiven() {
    let mut gate = gate(0.9);
    gate.client_wrote(1_000);
    assert!(!gate.client_may_write());
    gate.update(Pacing::default());
    assert!(gate.client_may_write());
    assert_eq!(gate.reclaim_may_move(), 0);
}

#[test]
fn while_idle_reclaim_runs_freely_and_a_client_that_comes_is_not_held_up() {
    let mut gate = Gate::new(BURST);
    gate.update(Pacing { reclaim_share: 1.0, idle: true, active: true, ..Pacing::default() });
    for _ in 0..100 {
        assert_eq!(gate.reclaim_may_move(), BURST);
        gate.reclaim_moved(BURST);
        assert!(gate.client_may_write());
    }
    gate.client_wrote(8);
    gate.update(Pacing { reclaim_share: 0.5, active: true, ..Pacing::default() });
    assert!(gate.client_may_write());
    gate.client_wrote(4 * BURST);
    assert!(gate.reclaim_may_move() > 0, "what ran ahead is forgotten after some bursts");
}
