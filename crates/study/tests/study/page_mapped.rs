//! A drive whose firmware maps pages.

use crate::{number, run, try_run};

/// What a drive's program units wait for after it was worn in is no part of what clients write then.
#[test]
fn a_drive_of_one_shot_programs_is_worn_in_by_the_load_and_timed() {
    for device in ["970pro", "zn540"] {
        let measured = run(&format!(
            r#"
            drive.kind = "page-mapped"
            workload.synthetic.job = [{{ rw = "randwrite", bs = "4k", rate_iops = 1000 }}]
            precondition = {{ fill = 1.0, workload = 1.0 }}
            measure = {{ requests = 3000, oracle = true }}
            [device]
            file = {device:?}
            nand = {{ blocks_per_plane = 16, pages_per_block = 48 }}
            ftl = {{ over_provisioning = 0.3 }}"#
        ));
        assert_eq!(number(&measured, "write_requests"), 3_000.0, "{device}");
        assert_eq!(measured.written.host_blocks, 3_000.0, "{device}");
    }
}

/// What waits for its die is overtaken: a pause is between two completions, whichever was submitted
/// first.
#[test]
fn completions_are_counted_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    run(&format!(
        r#"
        drive.kind = "page-mapped"
        workload.synthetic.job = [{{ rw = "randrw", bs = "4k", iodepth = 32 }}]
        precondition = {{ fill = 1.0, overwrites = 1.0 }}
        measure = {{ requests = 3000, log = {path:?} }}
        [device]
        file = "disksim-ssd"
        nand = {{ channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }}
        ftl = {{ over_provisioning = 0.3 }}"#
    ));
    let log = std::fs::read_to_string(&path).unwrap();
    let done = log.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap());
    let done: Vec<u64> = done.collect();
    assert_eq!(done.len(), 3_000);
    assert!(done.is_sorted(), "{:?}", done.windows(2).find(|pair| pair[0] > pair[1]));
}

/// A page is programmed as a whole, which is no part of what the host wrote.
#[test]
fn writes_of_half_a_page_are_amplified_twice() {
    let measured = run(r#"
        drive.kind = "page-mapped"
        workload.synthetic.job = [{ rw = "randwrite", bs = "4k" }]
        precondition = { fill = 0.3 }
        measure = { requests = 2000, timed = false }
        [device]
        file = "mqsim-mlc"
        nand = { blocks_per_plane = 16 }
        ftl = { over_provisioning = 0.3 }"#);
    assert_eq!(measured.written.host_blocks, 2_000.0);
    assert_eq!(measured.written.padding_blocks, 2_000.0);
    assert_eq!(measured.written.waf(), 2.0);
}

/// Nothing is there to be trimmed, and the device file gives a command no time.
#[test]
fn a_run_whose_requests_take_no_time_is_refused() {
    let error = try_run(
        r#"
        drive.kind = "page-mapped"
        workload.synthetic.job = [{ rw = "randtrim", bs = "4k", runtime = "1s" }]
        [device]
        file = "harmonia"
        nand = { blocks_per_plane = 64 }
        controller = { buffer_ns = 0, link_command_ns = 0, link_ns_per_byte = 0.0 }
        ftl = { over_provisioning = 0.3 }"#,
    )
    .unwrap_err();
    assert!(error.contains("took no time"), "{error}");
}

#[test]
fn a_run_that_only_writes_would_end_is_refused_where_none_of_its_jobs_goes_on_writing() {
    for kind in ["page-mapped", "engine"] {
        for (jobs, ends) in [
            (
                r#"{ rw = "randread", bs = "4k" }, { rw = "randtrim" }"#,
                "measure.drive_writes = 1.0",
            ),
            (r#"{ rw = "randread" }, { rw = "randtrim" }"#, "precondition.workload = 1.0"),
            // The one that writes ends long before.
            (
                r#"{ rw = "randread" }, { rw = "randwrite", bs = "4k", number_ios = 100 }"#,
                "measure.drive_writes = 1.0",
            ),
            (
                r#"{ rw = "randread" }, { rw = "randwrite", bs = "4k", number_ios = 100 }"#,
                "measure.requests = 100\nprecondition.workload = 1.0",
            ),
            (
                r#"{ rw = "randwrite", bs = "4k", numjobs = 2, number_ios = 100 }, { rw = "randread" }"#,
                "measure.drive_writes = 1.0",
            ),
            // In no time a second never passes.
            (
                r#"{ rw = "randread", runtime = "1s" }"#,
                "measure.requests = 100\nprecondition.workload = 1.0",
            ),
            (
                r#"{ rw = "randread", runtime = "1s" }"#,
                "measure = { drive_writes = 1.0, timed = false }",
            ),
        ] {
            let error = try_run(&format!(
                r#"
                drive.kind = "{kind}"
                workload.synthetic.job = [{jobs}]
                {ends}
                [device]
                file = "harmonia"
                nand = {{ blocks_per_plane = 64 }}
                ftl = {{ over_provisioning = 0.3 }}"#
            ))
            .unwrap_err();
            assert!(
                error.contains("no job that goes on writes"),
                "{kind}, {jobs}, {ends}: {error}"
            );
        }
    }
}

/// The last request is made as a whole.
#[test]
fn what_the_last_request_wrote_past_the_limit_is_the_hosts() {
    let measured = run(r#"
        drive.kind = "page-mapped"
        workload.synthetic.job = [{ rw = "write", bs = "1M" }]
        measure = { blocks = 1000, timed = false }
        [device]
        file = "disksim-ssd"
        nand = { blocks_per_plane = 64 }
        ftl = { over_provisioning = 0.3 }"#);
    assert_eq!(measured.written.host_blocks, 1_024.0);
    assert_eq!(measured.written.padding_blocks, 0.0);
}

#[test]
fn what_is_read_for_a_write_of_a_part_is_read() {
    let measured = run(r#"
        drive.kind = "page-mapped"
        workload.synthetic.job = [{ rw = "write", bs = "512" }]
        precondition.fill = 1.0
        measure = { requests = 1000, timed = false }
        [device]
        file = "disksim-ssd"
        nand = { blocks_per_plane = 64 }
        ftl = { over_provisioning = 0.3 }"#);
    assert!(number(&measured, "pages_read") >= 1_000.0);
}
