//! Placement under the published load: Zipf's law over 524,288 blocks of 4 KiB, each written once
//! in order and then ten times as many writes; segments of 16 MiB, six streams, one victim at a
//! time, the fill not counted. The write amplification is that of SepBIT's own simulator, within
//! 2 %, in its garbage-proportion mode and at fixed capacity.
//!
//! `cargo test --release -p mjolnir-policy --test placement_figures -- --ignored --nocapture` runs
//! and prints all of the table; without `--ignored`, a few of its cells run.

mod support;

use mjolnir_policy::placement::{self, Bins, FutureKnowledge, Shape};
use mjolnir_policy::replay::{Replay, ReplayReport, Trigger};
use mjolnir_policy::victim;

const BLOCKS: u32 = 524_288;
const SEGMENT_BLOCKS: u32 = 4096;
const GREEDY: &str = "greedy";
const SQRT: &str = "cost-benefit-sqrt";
const GARBAGE: Trigger = Trigger::Garbage(0.15);
/// Spare factor 0.152, open segments included.
const FIXED: Trigger = Trigger::Segments(151);

/// A figure of the table: how, which, and what the peer measured.
type Cell = (Trigger, &'static str, &'static str, f64);

const CELLS: [Cell; 17] = [
    (GARBAGE, GREEDY, "together", 5.114),
    (GARBAGE, GREEDY, "apart", 3.196),
    (GARBAGE, GREEDY, "autostream", 3.173),
    (GARBAGE, GREEDY, "sepbit", 2.383),
    (GARBAGE, GREEDY, "dac", 2.243),
    (GARBAGE, GREEDY, "future-linear", 2.101),
    (GARBAGE, SQRT, "together", 4.005),
    (GARBAGE, SQRT, "apart", 2.572),
    (GARBAGE, SQRT, "autostream", 2.540),
    (GARBAGE, SQRT, "sepbit", 2.067),
    (GARBAGE, SQRT, "dac", 1.948),
    (GARBAGE, SQRT, "future-linear", 1.952),
    (FIXED, SQRT, "together", 5.065),
    (FIXED, SQRT, "sepbit", 2.216),
    (FIXED, SQRT, "dac", 2.068),
    (FIXED, SQRT, "future-linear", 2.176),
    // Forty overwrites, eight logarithmic bins.
    (FIXED, SQRT, "future", 1.233),
];

fn run(load: &[u32], trigger: Trigger, victim: &str, name: &str) -> ReplayReport {
    let replay = Replay { segment_blocks: SEGMENT_BLOCKS, trigger, fill: BLOCKS as usize };
    let mut victim = victim::by_name(victim).unwrap();
    let bins = match name {
        "future-linear" => Some((Bins::Linear, 6)),
        "future" => Some((Bins::Logarithmic, 8)),
        "future-quartering" => Some((Bins::Quartering, 8)),
        _ => None,
    };
    if let Some((bins, streams)) = bins {
        let future = FutureKnowledge::new(bins, streams, SEGMENT_BLOCKS.into());
        return replay.run_offline(load, &mut *victim, &future);
    }
    let streams_max = if name == "interval" { 8 } else { 6 };
    let shape = Shape { streams_max, ..replay.shape(BLOCKS.into()) };
    replay.run(load, &mut *victim, placement::by_name_for(name, &shape).unwrap())
}

fn check(cells: &[Cell]) {
    let ten = support::load(BLOCKS, 10, "zipf:1.0", 1);
    let forty = cells.iter().any(|cell| cell.2 == "future");
    let forty = forty.then(|| support::load(BLOCKS, 40, "zipf:1.0", 1));
    println!(
        "| trigger | victim | placement | peer | ours | difference |\n|---|---|---|---|---|---|"
    );
    let mut off = Vec::new();
    for &(trigger, victim, name, peer) in cells {
        let load = if name == "future" { forty.as_ref().unwrap() } else { &ten };
        let report = run(load, trigger, victim, name);
        let difference = (report.waf() / peer - 1.0) * 100.0;
        let line = format!(
            "| {trigger:?} | {victim} | {name} | {peer:.3} | {:.3} | {difference:+.1} % |",
            report.waf()
        );
        println!("{line}");
        if report.stuck || difference.abs() > 2.0 {
            off.push(line);
        }
    }
    assert!(off.is_empty(), "more than 2 % off:\n{}", off.join("\n"));
}

#[test]
fn some_figures_are_those_of_the_peer() {
    let wanted = |cell: &&Cell| {
        cell.0 == GARBAGE && cell.1 == SQRT && cell.2 == "sepbit"
            || cell.0 == GARBAGE && cell.1 == GREEDY && cell.2 == "apart"
    };
    check(&CELLS.iter().filter(wanted).copied().collect::<Vec<_>>());
}

#[test]
#[ignore = "takes a minute though optimized: `cargo xtask test --long`"]
fn all_figures_are_those_of_the_peer() {
    check(&CELLS);
}

/// Under uniform load nothing can be told apart, and nothing may be lost: within 2 % of the plain
/// log, though six streams are open. The peer's last half of a run: 3.533, 3.532, 3.509.
#[test]
#[ignore = "takes a minute though optimized: `cargo xtask test --long`"]
fn uniform_load_gains_and_loses_nothing() {
    let load = support::load(BLOCKS, 10, "random", 2);
    let half = BLOCKS as usize * 6;
    for (name, peer) in [("together", 3.533), ("apart", 3.532), ("sepbit", 3.509)] {
        let replay = Replay { segment_blocks: SEGMENT_BLOCKS, trigger: GARBAGE, fill: half };
        let shape = Shape { streams_max: 6, ..replay.shape(BLOCKS.into()) };
        let policy = placement::by_name_for(name, &shape).unwrap();
        let report = replay.run(&load, &mut *victim::by_name(GREEDY).unwrap(), policy);
        println!("uniform, greedy, {name}: {:.3}, peer {peer:.3}", report.waf());
        assert!((report.waf() / peer - 1.0).abs() < 0.02, "{name}: {:.3}", report.waf());
    }
}
