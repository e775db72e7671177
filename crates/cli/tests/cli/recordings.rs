//! The recordings that the repository ships are whole, are read by `trace info`, and are what their
//! table says.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::program;

/// The longest recording, and all of them, in bytes.
const BYTES_MAX: u64 = 1_500_000;
const BYTES_SUM_MAX: u64 = 6_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings")
}

/// Names of files with that extension, without it.
fn names(folder: &Path, extension: &str) -> Vec<String> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let mut names: Vec<String> =
        wanted.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn info(file: &Path) -> Value {
    let output = Command::new(program()).args(["--json", "trace", "info"]).arg(file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The figures of a recording, as its row in the table has them.
fn figures(name: &str, info: &Value) -> Vec<String> {
    let summary = &info["summary"];
    let number = |value: &Value| value.as_u64().unwrap();
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let op = |op: &str| {
        let totals = &summary["ops"][op];
        match number(&totals["requests"]) {
            0 => "none".to_owned(),
            requests => format!("{requests}, {}", mib(number(&totals["bytes"]))),
        }
    };
    assert!(summary["blocks_exact"].as_bool().unwrap());
    vec![
        format!("[{name}]({name}.mjtrace)"),
        number(&summary["requests"]).to_string(),
        op("write"),
        op("read"),
        op("trim"),
        number(&summary["ops"]["flush"]["requests"]).to_string(),
        format!("{:.1} s", number(&summary["span_ns"]) as f64 / 1e9),
        mib(number(&summary["blocks_written"]) * number(&summary["block_bytes"])),
    ]
}

#[test]
fn every_recording_is_whole_and_what_its_table_says() {
    let folder = folder();
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let recordings = names(&folder, "mjtrace");
    assert!(recordings.len() >= 6, "{recordings:?}");
    let mut sum = 0;
    let mut stale = Vec::new();
    for name in &recordings {
        let file = folder.join(format!("{name}.mjtrace"));
        let bytes = file.metadata().unwrap().len();
        assert!(bytes <= BYTES_MAX, "{name} has {bytes} bytes");
        sum += bytes;
        let info = info(&file);
        let report = &info["report"];
        assert_eq!(report["format"], "mjolnir", "{name}");
        // What trace-format.md and recording.md say of the format.
        let a_request = bytes as f64 / info["summary"]["requests"].as_u64().unwrap() as f64;
        assert!((8.0..=12.0).contains(&a_request), "{name}: {a_request} bytes a request");
        assert_eq!(report["notes"], Value::Array(vec![]), "{name} is whole");
        assert_eq!(report["times_raised"], 0, "{name}");
        for op in ["read", "write", "trim", "flush"] {
            let requests = &info["summary"]["ops"][op]["requests"];
            assert!(requests.as_u64().unwrap() > 0, "{name} has no {op}");
        }
        let expected = figures(name, &info).join(" | ");
        let row = format!("| {expected} |");
        if !table.lines().any(|line| line == row) {
            stale.push(row);
        }
    }
    assert!(sum <= BYTES_SUM_MAX, "all together have {sum} bytes");
    assert!(stale.is_empty(), "these rows of README.md should read:\n{}", stale.join("\n"));
    let rows = table.lines().filter(|line| line.starts_with("| [")).count();
    assert_eq!(rows, recordings.len(), "a row for each recording");
}

#[test]
fn every_recording_has_the_script_that_made_it() {
    let folder = folder();
    let mut scripts = names(&folder.join("make"), "sh");
    scripts.retain(|name| name != "stage");
    assert_eq!(scripts, names(&folder, "mjtrace"));
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for name in scripts {
        assert!(table.contains(&format!("**{name}**")), "README.md says what {name} is");
    }
}
