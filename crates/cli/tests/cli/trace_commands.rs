//! `trace info` tells what is in a trace, `trace convert` writes it in another format; what is
//! wrong is one sentence with file and line, and nothing half-written is left behind.

use crate::support::Folder;

const MSR: &str = "128166372003061600,web,0,Read,7014609920,24576,41286\n\
                   128166372013061600,web,1,Write,512,4096,5\n";

fn folder(text: &str) -> Folder {
    let folder = Folder::empty();
    std::fs::write(folder.path("a.csv"), text).unwrap();
    folder
}

#[test]
fn info_tells_what_is_in_a_trace() {
    let told = folder(MSR).ok("trace info a.csv");
    for part in [
        "msr (MSR Cambridge",
        "recognised",
        "100 ns since 1601",
        "2007-02-22 17:00:00 UTC",
        "2 in 1.00 s",
        "2 volumes: web,0  web,1",
        "50.0 % of reads and writes",
        "36 KiB in distinct blocks of 4 KiB, 8 KiB of them written",
        "2 requests not in whole blocks of 4 KiB",
        "4.1 ms",
        "500 ns",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let json = folder(MSR).ok("trace info a.csv --json");
    for part in [
        "\"format\": \"msr\"",
        "\"start_unix_ns\": 1172163600306160000",
        "\"end\": 4608",
        "\"mean_latency_ns\": 500",
    ] {
        assert!(json.contains(part), "no {part:?} in {json}");
    }
}

#[test]
fn a_trace_is_converted_and_back() {
    let folder = folder(MSR);
    let told = folder.ok("trace convert a.csv a.mjtrace");
    assert!(told.contains("2 of 2 requests read from msr written as mjolnir"), "{told}");
    assert!(told.contains("nothing was lost"), "{told}");
    folder.ok("trace convert a.mjtrace b.csv --to msr");
    assert_eq!(std::fs::read_to_string(folder.path("b.csv")).unwrap(), MSR);
    let told = folder.ok("trace convert a.mjtrace c.txt --to fio-v3");
    assert!(told.contains("lost: 2 latencies left out"), "{told}");
    let said = folder.run("trace convert a.mjtrace - --to spc");
    assert_eq!(said.out, "0,13700410,24576,r,0.000000000\n1,1,4096,w,1.000000000\n");
    assert!(said.err.contains("2 names of volumes changed"), "{}", said.err);
}

#[test]
fn bad_records_are_told_with_file_and_line_or_skipped() {
    let folder = folder(&format!("{MSR}128166372013061600,web,1,Write,-5,4096,5\n"));
    folder.refused("trace info a.csv", &["a.csv line 3", "\"-5\"", "--lenient"]);
    folder.refused("trace convert a.csv b", &["a.csv line 3"]);
    assert!(!folder.path("b").exists());
    assert_eq!(std::fs::read_dir(folder.path(".")).unwrap().count(), 1, "nothing is left behind");
    let told = folder.ok("trace info a.csv --lenient");
    assert!(told.contains("1 record skipped: negative number"), "{told}");
    assert!(told.contains("skipped line 3: the offset"), "{told}");
}

#[test]
fn what_stands_in_the_way_is_told() {
    let folder = folder(MSR);
    folder.refused("trace info b.csv", &["b.csv", "No such file"]);
    folder.refused("trace info .", &["folder"]);
    folder.misused("trace info a.csv --format msrr", &["did you mean msr?"]);
    folder.refused("trace convert a.csv a.csv", &["exists", "--force"]);
    folder.refused("trace convert a.csv b --to vscsi1", &["vscsi1", "choose another"]);
    folder.refused("trace convert a.csv no/b", &["no/b"]);
    folder.ok("trace convert a.csv a.csv --to alibaba --force");
    assert!(folder.ok("trace info a.csv").contains("alibaba"));
    std::fs::write(folder.path("x"), "hello\n").unwrap();
    folder.refused("trace info x", &["not recognised", "hello", "--format"]);
}

#[test]
fn a_recording_that_was_cut_is_read_and_said() {
    let folder = folder(MSR);
    folder.ok("trace convert a.csv a.mjtrace");
    let bytes = std::fs::read(folder.path("a.mjtrace")).unwrap();
    std::fs::write(folder.path("a.mjtrace"), &bytes[..bytes.len() - 10]).unwrap();
    let told = folder.ok("trace info a.mjtrace");
    assert!(told.contains("is cut") && told.contains("2 in 1.00 s"), "{told}");
}
