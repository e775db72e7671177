//! The lab's commands from end to end: list, run, go on after a kill, report, compare; and what is
//! wrong is one sentence.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Folder, program, wait_until};

const MINE: &str = r#"name = "mine"
title = "Mine"
source = "Here"
question = "What?"
kind = "uniform-overwrites"

[configuration]
pages = 16
erase_blocks = 64
warm = 1.0
measured = 1.0

[sweep]
spare = [0.2, 0.3, 0.4]
policy = [{ label = "greedy", victim = "greedy" }, { label = "random", victim = "random" }]

[[figure]]
name = "waf"
title = "WAF"
x = "spare"
y = ["waf"]
"#;

fn folder() -> Folder {
    let folder = Folder::empty();
    std::fs::write(folder.path("mine.toml"), MINE).unwrap();
    folder
}

fn read(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).unwrap()
}

#[test]
fn experiments_are_listed() {
    let folder = Folder::empty();
    let told = folder.ok("lab list");
    assert!(told.contains("waf-closed-forms") && told.contains("disksim-means"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&folder.ok("lab list --json")).unwrap();
    let first = &json[0];
    assert_eq!(first["name"], "waf-closed-forms");
    assert!(first["points"].as_u64() > first["quick_points"].as_u64(), "{first}");
}

#[test]
fn a_run_leaves_results_a_report_and_figures() {
    let folder = folder();
    let told = folder.ok("lab run mine.toml --seeds 3 --jobs 2 --out out");
    assert!(told.contains("mine: 6 points") && told.contains("out/report.html"), "{told}");
    assert!(told.lines().any(|line| line.starts_with("all: 1 experiment in ")), "{told}");
    for name in ["mine/results.json", "mine/results.csv", "mine/summary.csv", "report.html"] {
        assert!(folder.path("out").join(name).is_file(), "{name}");
    }
    assert!(read(&folder, "out/figures/mine-waf.svg").contains("</svg>"));
    let results: serde_json::Value =
        serde_json::from_str(&read(&folder, "out/mine/results.json")).unwrap();
    assert_eq!(results["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(results["version"], env!("CARGO_PKG_VERSION"));
    assert!(results["build"].as_str().unwrap().starts_with("crc32c-"));
    assert_eq!(results["points"][0]["configuration"]["erase_blocks"], 64);
    // The report can be written anew, and is the same.
    let page = read(&folder, "out/report.html");
    std::fs::remove_file(folder.path("out/report.html")).unwrap();
    assert_eq!(folder.ok("lab report out"), "out/report.html\n");
    assert_eq!(read(&folder, "out/report.html"), page);
}

#[test]
fn twice_or_with_other_jobs_is_the_same() {
    let folder = folder();
    folder.ok("lab run mine.toml --jobs 1 --out a");
    let json: serde_json::Value =
        serde_json::from_str(&folder.ok("lab run mine.toml --jobs 2 --out b --json")).unwrap();
    let took = json["experiments"][0]["seconds"].as_f64().unwrap();
    assert!(took > 0.0 && json["seconds"] == took, "{json}");
    for name in ["mine/results.json", "mine/results.csv", "report.html"] {
        assert_eq!(read(&folder, &format!("a/{name}")), read(&folder, &format!("b/{name}")));
    }
    let told = folder.ok("lab compare a b");
    assert!(told.contains("0 differ"), "{told}");
}

#[test]
fn compare_tells_what_differs_and_whether_by_chance() {
    let folder = folder();
    folder.ok("lab run mine.toml --seeds 4 --out a");
    folder.ok("lab run mine.toml --seeds 4 --seed 100 --out b");
    folder.ok("lab run mine.toml --seeds 4 --set spare=0.2 --set measured=3.0 --out c");
    let told = folder.ok("lab compare a b");
    for part in ["seeds [1, 2, 3, 4] and [100,", "RATIO", "within the confidence interval"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let told = folder.ok("lab compare a/mine/results.json c");
    for part in ["only the first has policy = greedy, spare = 0.3", "the configurations differ"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&folder.ok("lab compare a b --json")).unwrap();
    assert!(json["numbers_compared"].as_u64() > Some(20), "{json}");
    assert!(json["differences"][0]["ratio"].is_number(), "{json}");
    // A mean of more seeds is another one only if it is another number.
    folder.ok("lab run mine.toml --seeds 1 --out d");
    let json: serde_json::Value =
        serde_json::from_str(&folder.ok("lab compare a d --json")).unwrap();
    let listed = json["differences"].as_array().unwrap();
    assert!(
        !listed.is_empty() && listed.len() < json["numbers_compared"].as_u64().unwrap() as usize
    );
    assert!(listed.iter().all(|found| found["a"]["mean"] != found["b"]["mean"]), "{json}");
}

/// A sweep that takes long enough to be interrupted, in steps short enough not to be waited for.
fn long(folder: &Folder) {
    let text = MINE
        .replace("spare = [0.2, 0.3, 0.4]", "spare = [0.1, 0.11, 0.12, 0.13, 0.14, 0.15]")
        .replace("erase_blocks = 64", "erase_blocks = 512")
        .replace("measured = 1.0", "measured = 40.0");
    std::fs::write(folder.path("long.toml"), text).unwrap();
}

fn kept(folder: &Folder) -> usize {
    let points = folder.path("out/mine/points");
    let Ok(files) = std::fs::read_dir(points) else { return 0 };
    files.filter(|file| file.as_ref().unwrap().path().extension().is_some()).count()
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_stood() {
    let folder = Folder::empty();
    long(&folder);
    let mut command = folder.command("lab run long.toml --jobs 1 --out out");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("some runs are kept", || kept(&folder) >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!folder.path("out/mine/results.json").exists());
    let said = folder.run("lab run long.toml --out out");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("of them are there already"), "{}", said.err);
    folder.ok("lab run long.toml --out fresh");
    assert_eq!(read(&folder, "out/mine/results.json"), read(&folder, "fresh/mine/results.json"));
}

#[test]
fn an_interrupt_ends_cleanly_and_says_how_to_go_on() {
    let folder = Folder::empty();
    long(&folder);
    let mut command = folder.command("lab run long.toml --jobs 1 --out out");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a run is kept", || kept(&folder) >= 1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    for part in ["interrupted; ", " of 12 runs are kept in out", "give the same command again"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    folder.refused("lab report out", &["out has no results"]);
}

#[test]
fn a_figure_that_runs_have_nothing_for_ends_in_an_error() {
    let folder = folder();
    std::fs::write(folder.path("mine.toml"), MINE.replace("[\"waf\"]", "[\"wav\"]")).unwrap();
    let said = folder.run("lab run mine.toml");
    assert_eq!(said.code, Some(1), "{said:?}");
    let ending = "1 of the figures and published numbers have nothing to show";
    for part in ["figure waf shows nothing: runs have no wav", ending] {
        assert!(said.err.contains(part), "no {part:?} in {said:?}");
    }
}

#[test]
fn what_is_wrong_is_one_sentence() {
    let folder = folder();
    folder.refused("lab run waf-closed-form", &["\"waf-closed-form\"", "\"waf-closed-forms\""]);
    folder.refused("lab run .", &["reading .", "directory"]);
    folder.refused("lab run nofile.toml", &["there is no file nofile.toml"]);
    folder.refused("lab run mine.toml mine.toml", &["asked for twice"]);
    folder.refused("lab run mine.toml --set spare=0", &["--set spare: ", "spare = 0"]);
    folder.refused("lab run mine.toml --set pagse=3", &["--set pagse: ", "\"pagse\"", "\"pages\""]);
    folder.refused("lab run mine.toml --set pages.x=3", &["--set pages.x", "nothing within"]);
    folder.refused("lab run mine.toml --out mine.toml", &["mine.toml is a file: name a folder"]);
    folder.refused("lab report nowhere", &["there is no nowhere", "`mjolnir lab run"]);
    folder.refused("lab compare mine.toml mine.toml", &["mine.toml line 1", "no results"]);
    std::fs::write(folder.path("bad.toml"), MINE.replace("question", "qestion")).unwrap();
    folder.refused("lab run bad.toml", &["bad.toml line 4", "\"qestion\"", "\"question\""]);
    folder.misused("lab run", &["NAME"]);
    folder.misused("lab run mine.toml --jobs 0", &["--jobs"]);
    folder.misused("lab run mine.toml --set spare", &["KEY=VALUE"]);
}

#[test]
fn a_disk_that_is_full_is_one_sentence_and_leaves_nothing_half_written() {
    let folder = folder();
    folder.ok("lab run mine.toml --out whole");
    // No file may grow beyond a block or two: results of single runs fit, others do not.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 1 && exec \"$0\" lab run mine.toml --out out"]);
    let output = command.arg(program()).current_dir(folder.path(".")).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let complaint = told.lines().last().unwrap();
    assert!(complaint.contains("mjolnir: writing out/") && complaint.contains("again"), "{told}");
    for file in std::fs::read_dir(folder.path("out/mine")).unwrap() {
        let path = file.unwrap().path();
        assert!(path.ends_with("points") || path.extension().is_none(), "{}", path.display());
    }
    folder.ok("lab run mine.toml --out out");
    assert_eq!(read(&folder, "out/mine/results.json"), read(&folder, "whole/mine/results.json"));
}
