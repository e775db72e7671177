//! Policies are found by name, and a mistyped name is answered with the nearest one.

use mjolnir_policy::{PolicyError, pacing, placement, read_plan, victim};

#[test]
fn every_registered_name_makes_the_policy_of_that_name() {
    for name in victim::names() {
        assert_eq!(victim::by_name(name).unwrap().name(), name);
    }
    for name in placement::names() {
        assert_eq!(placement::by_name(name).unwrap().name(), name);
    }
    for name in pacing::names() {
        assert_eq!(pacing::by_name(name).unwrap().name(), name);
    }
    for name in read_plan::names() {
        assert_eq!(read_plan::by_name(name).unwrap().name(), name);
    }
}

#[test]
fn the_defaults_come_first() {
    assert_eq!(victim::names().next(), Some("greedy"));
    assert_eq!(placement::names().next(), Some("apart"));
    assert_eq!(pacing::names().next(), Some("free-space"));
    assert_eq!(read_plan::names().next(), Some("near"));
}

/// What the error says comes nearest.
fn nearest<P>(found: Result<P, PolicyError>) -> &'static str {
    match found.err() {
        Some(PolicyError::Unknown { nearest, .. }) => nearest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mistyped_name_is_answered_with_the_nearest() {
    let error = victim::by_name("cost-benfit").err().unwrap();
    assert_eq!(nearest(victim::by_name("cost-benfit")), "cost-benefit");
    assert_eq!(
        error.to_string(),
        "no victim policy is called \"cost-benfit\"; \"cost-benefit\" comes nearest (there are: \
         greedy, cost-benefit, cost-benefit-sqrt, fifo, random, d-choices, windowed-greedy, age-threshold)"
    );
    assert_eq!(nearest(placement::by_name("Together")), "together");
    assert_eq!(nearest(pacing::by_name("freespace")), "free-space");
    assert!(victim::by_name("").is_err());
}
