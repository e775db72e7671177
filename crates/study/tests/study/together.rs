//! Several engines on several simulated drives in one run: each has an identity, clients, a volume and
//! counters of its own, and does what it does alone.

use mjolnir_study::{DriveId, Measured, Study, run, run_together};

use crate::{SMALL, number, study};

/// Random overwrites of blocks of that size, so many times the drive.
fn overwrites(bs: &str, drive_writes: f64) -> Study {
    study(&format!(
        "{SMALL}
        [engine]
        request_ns = 1000
        scan_ns_per_mapping = 2
        [workload.synthetic]
        job = [{{ rw = \"randwrite\", bs = \"{bs}\", iodepth = 4 }}]
        [precondition]
        fill = 1.0
        overwrites = 1.0
        [measure]
        drive_writes = {drive_writes:?}
        oracle = true"
    ))
}

fn together(studies: &[Study]) -> Vec<Measured> {
    run_together(studies, 1, &mut |_| true).unwrap()
}

#[test]
fn each_of_two_drives_counts_its_own_and_does_what_it_does_alone() {
    let studies = [overwrites("4k", 1.0), overwrites("16k", 0.5)];
    let both = together(&studies);
    assert_eq!([both[0].drive, both[1].drive], [DriveId(0), DriveId(1)]);
    for (measured, blocks) in both.iter().zip([12_288.0, 6_144.0]) {
        assert_eq!(measured.written.host_blocks, blocks);
        assert!(measured.reclaim_ran, "{:?}", measured.outcome.notes);
    }
    assert_eq!([both[0].requests, both[1].requests], [12_288, 1_536]);
    for (measured, study) in both.iter().zip(&studies) {
        let alone = run(study, measured.drive.seed(1), &mut |_| true).unwrap();
        assert_eq!(measured.written, alone.written, "{}", measured.drive);
        for (name, value) in &alone.outcome.numbers {
            assert_eq!(number(measured, name), *value, "{}: {name}", measured.drive);
        }
        assert_eq!(measured.outcome.series, alone.outcome.series, "{}", measured.drive);
    }
}

#[test]
fn a_run_of_several_drives_repeats_and_like_drives_draw_otherwise() {
    let studies = [overwrites("4k", 0.5), overwrites("4k", 0.5)];
    let (once, again) = (together(&studies), together(&studies));
    assert_eq!(once, again);
    assert_ne!(once[0].outcome.numbers, once[1].outcome.numbers);
}

#[test]
fn what_is_wrong_with_a_drive_is_told_with_its_number() {
    let mut studies = [overwrites("4k", 0.1), overwrites("4k", 0.1)];
    let refused = |studies: &[Study]| run_together(studies, 1, &mut |_| true).unwrap_err();
    studies[1].measure.timed = false;
    assert!(refused(&studies).starts_with("drive 1: measure.timed: "));
    studies[1] = overwrites("4k", 0.1);
    studies[1].engine.cores = 0;
    assert!(refused(&studies).starts_with("drive 1: engine.cores: "));
    assert!(run_together(&[], 1, &mut |_| true).unwrap().is_empty());
}
