//! Every row that needs no other program runs, at a size of no meaning, and tells all its lines: so
//! that the benchmark never rots.

use std::process::Command;

fn bench(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mjolnir-bench"));
    let output = command.args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert!(!errors.contains("FAILED"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of rows that need no other program, from `--list`.
fn lines_in_process() -> Vec<String> {
    let (mut names, mut wanted) = (Vec::new(), false);
    for line in bench(&["--list"]).lines() {
        match line.strip_prefix("  ") {
            Some(line) if wanted => names.push(line.split(':').next().unwrap().to_owned()),
            Some(_) => {}
            None => wanted = !line.contains("(needs"),
        }
    }
    names
}

#[test]
fn every_row_in_process_runs_and_tells_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let plots = tempfile::tempdir().unwrap();
    // A folder that is not there yet is made.
    let plots = plots.path().join("plots");
    let to = plots.to_str().unwrap();
    let told = bench(&["--tiny", "--in-process", "--json", "--dir", dir, "--plots", to]);
    let mut drawn = 0;
    let mut found: Vec<String> = Vec::new();
    for line in told.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(of) = line["courses"].as_str() {
            assert_eq!(Some(of), found.last().map(String::as_str), "courses follow their line");
            assert!(line["points"].as_array().is_some_and(|points| !points.is_empty()), "{of}");
            drawn += line["columns"].as_array().unwrap().len() - 1;
            continue;
        }
        let name = line["name"].as_str().unwrap();
        for key in ["figure", "unit", "target", "holds", "lowest", "highest"] {
            assert!(line.get(key).is_some(), "{name} has no {key}");
        }
        assert!(line["figure"].is_number(), "{name} has no figure");
        assert_eq!(line["target"].is_null(), line["holds"].is_null(), "{name}");
        found.push(name.to_owned());
    }
    assert_eq!(found, lines_in_process());
    assert!(drawn > 0);
    assert_eq!(plots.read_dir().unwrap().count(), drawn, "each course has a plot");
    for plot in plots.read_dir().unwrap() {
        let path = plot.unwrap().path();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(svg.contains("class=\"line\""), "{} shows nothing", path.display());
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "files were left behind");
}

#[test]
fn names_choose_rows_and_a_wrong_one_is_told() {
    let told = bench(&["--tiny", "--json", "snapshot-map"]);
    assert_eq!(told.lines().count(), 2, "{told}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mjolnir-bench"));
    let output = command.arg("no-such-row").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-row"));
}
