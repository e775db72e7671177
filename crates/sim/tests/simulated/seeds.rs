//! A few seeds of the whole simulator in every test run; `cargo xtask sim` runs more.

use mjolnir_sim::{RunSize, run_seed};

#[test]
fn the_first_seeds_pass() {
    for seed in 0..24 {
        let report = run_seed(seed, RunSize::Short, false);
        assert!(
            report.failure.is_none(),
            "{report}\n{:#?}",
            report.failure.as_ref().map(|f| &f.tail)
        );
    }
}

#[test]
fn a_run_of_the_engine_repeats_byte_for_byte() {
    for seed in 0..8 {
        let (one, two) =
            (run_seed(seed, RunSize::Short, false), run_seed(seed, RunSize::Short, false));
        assert_eq!((one.trace, one.events, one.tally), (two.trace, two.events, two.tally));
    }
}
