//! The experiments that are shipped: sound, named as their files, and in their quick variants they
//! run, and have points for every figure.

use std::sync::atomic::AtomicBool;

use mjolnir_experiment::{Changes, Plan, SHIPPED, Setting, Version, report};
use mjolnir_machine::kinds;

fn plan(name: &str, text: &str, quick: bool) -> Plan {
    let changes = Changes { quick, ..Changes::default() };
    Plan::new(name, text, &changes, &kinds()).unwrap()
}

#[test]
fn they_are_sound_and_named_as_their_files() {
    for (name, text) in SHIPPED {
        for quick in [false, true] {
            let plan = plan(name, text, quick);
            assert_eq!(plan.experiment.name, *name);
            assert!(!plan.points.is_empty() && !plan.experiment.figure.is_empty(), "{name}");
        }
    }
}

/// Those by the clock come last, alone, and say that they are.
#[test]
fn they_run_and_every_figure_has_points() {
    for (name, text) in SHIPPED {
        let plan = plan(name, text, true);
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let setting =
            Setting { folder: folder.path(), report: None, jobs: 2, version, stop: &stop };
        let results = plan.run(&setting, &|_| {}).unwrap();
        assert_eq!(results.failures, [], "{name}");
        assert_eq!(report::troubles(&results), [], "{name}");
        for point in &results.points {
            let said = point.notes().iter().any(|note| note.contains("by the clock"));
            assert_eq!(point.by_clock, point.kind.starts_with("machine-"), "{name}");
            assert_eq!(point.by_clock, said, "{name}: {:?}", point.notes());
        }
    }
}
