//! The contract of every read-plan policy, over random victims.

use mjolnir_policy::read_plan::{ReadPlanView, Span, by_name, names};
use proptest::prelude::*;

/// Live runs, most of them with a gap before them.
fn victim() -> impl Strategy<Value = Vec<Span>> {
    prop::collection::vec((0u64..40, 1u64..700), 0..60).prop_map(|pieces| {
        let mut at = 0;
        let run = |(gap, blocks): (u64, u64)| {
            let run = Span { at: at + gap, blocks };
            at = run.end();
            run
        };
        pieces.into_iter().map(run).collect()
    })
}

fn blocks(spans: &[Span]) -> impl Iterator<Item = u64> {
    spans.iter().flat_map(|span| span.at..span.end())
}

proptest! {
    #[test]
    fn plans_keep_the_contract(live in victim(), read_blocks_max in 1u64..800) {
        for name in names().chain(["near:gap=0", "near:gap=1000"]) {
            let view = ReadPlanView { live: &live, read_blocks_max };
            let reads = by_name(name).unwrap().plan(&view);
            prop_assert!(reads.windows(2).all(|pair| pair[0].end() <= pair[1].at), "{name}");
            prop_assert!(reads.iter().all(|r| (1..=read_blocks_max).contains(&r.blocks)), "{name}");
            let is_live = |at: u64| live.iter().any(|run| (run.at..run.end()).contains(&at));
            prop_assert!(reads.iter().all(|r| is_live(r.at) && is_live(r.end() - 1)), "{name}");
            let read: std::collections::BTreeSet<u64> = blocks(&reads).collect();
            prop_assert!(blocks(&live).all(|block| read.contains(&block)), "{name}");
            let within = |run: &Span, read: &Span| read.at <= run.at && run.end() <= read.end();
            let whole = |run: &Span| reads.iter().any(|read| within(run, read));
            let mut short = live.iter().filter(|run| run.blocks <= read_blocks_max);
            prop_assert!(short.all(whole), "{name} tears a run apart");
            if name == "runs" {
                prop_assert_eq!(read.len() as u64, live.iter().map(|run| run.blocks).sum::<u64>());
            }
        }
    }
}

#[test]
fn near_reads_a_live_segment_in_long_reads_across_its_records() {
    let live: Vec<Span> = (0..10).map(|group| Span { at: 1 + group * 129, blocks: 128 }).collect();
    let view = ReadPlanView { live: &live, read_blocks_max: 512 };
    let reads = by_name("near").unwrap().plan(&view);
    assert_eq!(reads[0], Span { at: 1, blocks: 3 * 129 - 1 });
    assert_eq!(reads.len(), 4);
    assert_eq!(by_name("runs").unwrap().plan(&view).len(), 10);
}
