//! NAND that fails below the engine.

use crate::{number, run, try_run};

/// A device of 64 MiB, of which the host is offered 44 MiB, that is overwritten at random, with the
/// oracle on. `faults` and `drive` are what to add to the tables of that name.
fn failing(faults: &str, drive: &str, rest: &str) -> String {
    format!(
        r#"
        workload = {{ synthetic = {{ job = [{{ rw = "randrw", bs = "4k", iodepth = 4 }}] }} }}
        measure = {{ drive_writes = 4.0, oracle = true }}
        {rest}
        [device]
        file = "disksim-ssd"
        nand = {{ channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }}
        faults = {{ {faults} }}
        [drive]
        bytes = "44M"
        zone_planes = 2
        {drive}
        "#
    )
}

#[test]
fn what_lay_on_erase_blocks_that_failed_is_read_back() {
    let sound = run(&failing("", "spare_blocks = 6", ""));
    let text =
        failing("program_failures_ppm = 30, erase_failures_ppm = 1000", "spare_blocks = 6", "");
    let measured = run(&text);
    let retired = number(&measured, "retired_blocks");
    assert!(retired > 3.0, "{retired} erase blocks failed");
    assert!(measured.outcome.notes.iter().any(|note| note.contains("oracle checked every read")));
    // The engine writes what it writes without failures; the controller writes besides.
    let rewritten = measured.written.rewritten_blocks;
    assert!(rewritten > 0.0 && rewritten < 64.0 * retired, "{rewritten} for {retired}");
    let (own, of_sound) =
        (measured.written.total_blocks() - rewritten, sound.written.total_blocks());
    assert!((own / of_sound - 1.0).abs() < 0.05, "{own} blocks, {of_sound} on sound NAND");
    assert_eq!(run(&text), measured, "the same again");
}

#[test]
fn endurance_wears_a_drive_out_and_it_says_so() {
    for prepared in ["", "precondition = { fill = 1.0, overwrites = 8.0 }"] {
        let error = try_run(&failing("endurance_erases = 4", "", prepared)).unwrap_err();
        assert!(error.contains("worn out") && error.contains("drive.spare_blocks"), "{error}");
        assert!(!error.contains("over_provisioning"), "room is not what it lacks: {error}");
    }
    let measured = run(&failing("endurance_erases = 1000", "", ""));
    assert_eq!(number(&measured, "retired_blocks"), 0.0);
}

#[test]
fn a_page_mapped_drive_tells_of_erase_blocks_that_failed() {
    let drive = "bytes = \"44M\"\n        zone_planes = 2";
    let of = |faults: &str| {
        let text = failing(faults, "", "").replace(
            "pages_per_block = 64 }",
            "pages_per_block = 64 }
        ftl = { over_provisioning = 0.3 }",
        );
        assert!(text.contains(drive));
        run(&text.replace(drive, "kind = \"page-mapped\""))
    };
    let retired =
        number(&of("program_failures_ppm = 30, erase_failures_ppm = 1000"), "retired_blocks");
    assert!(retired > 1.0, "{retired} erase blocks failed");
    assert!(!of("").outcome.numbers.contains_key("retired_blocks"), "none can fail");
}

#[test]
fn a_drive_with_failed_erase_blocks_is_saved_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let faults = "program_failures_ppm = 20";
    let wear = |key: &str| {
        format!("precondition = {{ {key} = {:?}, fill = 1.0, overwrites = 2.0 }}", path)
    };
    let saved = run(&failing(faults, "spare_blocks = 8", &wear("save")));
    let retired = number(&saved, "retired_blocks");
    assert!(retired > 1.0, "{retired} erase blocks failed");
    let restored = format!("precondition = {{ restore = {path:?} }}");
    // With faults that never strike, only those that were saved are left.
    let sound = run(&failing("endurance_erases = 1000000", "spare_blocks = 8", &restored));
    let kept = number(&sound, "retired_blocks");
    assert!(kept >= 1.0 && kept <= retired, "{kept} were saved of {retired}");
    let again = number(&run(&failing(faults, "spare_blocks = 8", &restored)), "retired_blocks");
    assert!(again > kept, "{again} after {kept}");
    let other = try_run(&failing(faults, "spare_blocks = 7", &restored)).unwrap_err();
    assert!(other.contains("of another drive"), "{other}");
}
