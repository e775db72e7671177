//! The engine on simulated NAND, untimed and timed.

use crate::{SMALL, number, run};

#[test]
fn random_overwrites_make_reclaim_run_and_every_block_is_accounted_for() {
    let measured = run(&format!(
        "{SMALL}
        [engine]
        checkpoint_bytes = \"16M\"
        [workload.synthetic]
        job = [{{ rw = \"randwrite\", bs = \"4k\" }}]
        [precondition]
        fill = 1.0
        overwrites = 1.0
        [measure]
        timed = false
        drive_writes = 2.0
        oracle = true"
    ));
    println!("{:#?}", measured.outcome.numbers);
    println!("{:#?}", measured.outcome.notes);
    assert!(measured.reclaim_ran);
    assert_eq!(measured.written.host_blocks, 2.0 * 12288.0);
    let waf = measured.written.waf();
    assert!((1.5..8.0).contains(&waf), "{waf}");
    assert_eq!(number(&measured, "waf"), waf);
}

/// Clients wait for latencies that NAND's times add up to.
#[test]
fn a_read_of_an_idle_drive_takes_as_long_as_its_parts() {
    let measured = run(&format!(
        "{SMALL}
        [engine]
        request_ns = 1000
        [workload.synthetic]
        job = [{{ rw = \"randread\", bs = \"4k\" }}]
        [precondition]
        fill = 1.0
        [measure]
        requests = 2000
        oracle = true"
    ));
    println!("{:#?}", measured.outcome.numbers);
    // Cells, 4224 bytes over the pins, 4096 over the link, and the core.
    let expected = 25.0 + 105.6 + 1.907 + 1.0;
    let mean = number(&measured, "read_mean_us");
    assert!((mean / expected - 1.0).abs() < 0.001, "{mean} {expected}");
}

#[test]
fn timed_random_writes_are_bound_by_nand_and_reclaim() {
    let text = format!(
        "{SMALL}
        [device.controller]
        write_buffer_bytes = 1048576
        [workload.synthetic]
        job = [{{ rw = \"randwrite\", bs = \"8k\", iodepth = 8 }}]
        [precondition]
        fill = 1.0
        overwrites = 1.0
        [measure]
        drive_writes = 1.0
        oracle = true"
    );
    let measured = run(&text);
    println!("{:#?}", measured.outcome.numbers);
    println!("{:#?}", measured.outcome.notes);
    assert!(measured.reclaim_ran);
    assert_eq!(run(&text), measured, "the same study twice");
}
