//! `mjolnir advise` from end to end, on a shipped recording; and what is wrong is one sentence.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::Folder;

#[test]
fn a_recording_gets_the_same_advice_twice_with_a_report() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/sqlite.mjtrace");
    let folder = Folder::empty();
    std::fs::copy(recording, folder.path("s.mjtrace")).unwrap();
    // Less than all policies, so that it is quick on a slow machine, too.
    let command = "advise s.mjtrace --quick --placement dac,sepbit --spare 20%,30%";
    let first = folder.ok(&format!("{command} --json --jobs 2"));
    assert_eq!(folder.ok(&format!("{command} --json --jobs 1")), first);
    let told: Value = serde_json::from_str(&first).unwrap();
    let advice = &told["advice"];
    assert_eq!(advice["default"]["placement"], "apart");
    assert_eq!(advice["spares"].as_array().unwrap().len(), 2);
    for waf in [&advice["default"]["waf"], &advice["best"]["waf"], &advice["future"]["waf"]] {
        assert_eq!(waf["runs"], 3);
        assert!(waf["mean"].as_f64().unwrap() >= 1.0, "{waf}");
    }
    assert!(advice["lab_default"]["write_p99_9_us"].as_f64().unwrap() > 0.0, "{advice}");
    let [win, spread] = [&advice["win"]["mean"], &advice["spread"]].map(|n| n.as_f64().unwrap());
    if advice["verdict"] == "choose" {
        assert!(win > spread, "{advice}");
    } else {
        assert_eq!(advice["choice"]["placement"], "apart", "{advice}");
    }
    // What follows goes on from what is there.
    let shown = folder.ok(&format!("{command} --out out"));
    for part in
        ["mjolnir serve STORE --placement", "FUTURE KNOWN", "write p99.9", "out/report.html"]
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    // A store that takes the data in, as `format` has it: the spare factor is of data's segments alone.
    let size =
        shown.lines().find_map(|line| line.trim().strip_prefix("mjolnir format STORE --size "));
    let size = size.and_then(|size| size.strip_suffix('M')).expect("how large").parse::<u64>();
    let data = advice["data_bytes"].as_u64().unwrap();
    assert!((size.unwrap() << 20) * 3 / 4 >= data, "{shown}");
    // The other's longer life is told only where it is advised.
    assert_eq!(shown.contains("flash lives"), advice["verdict"] == "choose", "{shown}");
    assert_eq!(folder.ok(&format!("{command} --out out")), shown);
    let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert!(page.contains("Every policy, by spare factor") && page.contains("</svg>"));
    // It begins with the advice, in the words of the terminal.
    let (said, _) = shown.split_once('\n').unwrap();
    let said = said.strip_prefix("s.mjtrace: ").unwrap();
    let (lead, behind) = page.split_once("Experiments in this folder").unwrap();
    for part in
        [said, "<h1>Advice on s.mjtrace</h1>", "mjolnir serve STORE --placement", "--spare 20%"]
    {
        assert!(lead.contains(part), "no {part:?} in {lead}");
    }
    assert!(
        !behind.contains("mjolnir lab run"),
        "an experiment of advice has no name to run it by"
    );
    folder.ok("lab report out");
    let anew = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
    assert_eq!(anew, page, "a report that is written anew says the same");
}

#[test]
fn what_is_no_trace_to_advise_on_is_refused() {
    let folder = Folder::empty();
    let msr = |name: &str, kind: &str, lines: u64| {
        let mut text = String::new();
        for line in 0..lines {
            let time = 128_166_372_003_061_629 + line;
            writeln!(text, "{time},web,0,{kind},{},4096,10", line * 8192).unwrap();
        }
        std::fs::write(folder.path(name), text).unwrap();
    };
    msr("reads.csv", "Read", 5000);
    msr("small.csv", "Write", 50);
    std::fs::write(folder.path("text"), "this is no trace\n").unwrap();
    folder.refused("advise reads.csv", &["reads.csv", "no writes"]);
    folder.refused("advise small.csv", &["small.csv", "too small"]);
    // What advice keeps beside its results is not written over what it is asked about.
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/sqlite.mjtrace");
    let mine = folder.path("advise-trace.mjtrace");
    std::fs::copy(&recording, &mine).unwrap();
    std::fs::write(folder.path("advice.json"), "{}").unwrap();
    folder.refused(
        "advise advise-trace.mjtrace --quick --out .",
        &["advise-trace.mjtrace would be written over", "--out"],
    );
    assert!(std::fs::read(mine).unwrap() == std::fs::read(recording).unwrap());
    assert!(folder.path("advice.json").exists(), "what is refused removes nothing");
    folder.refused("advise small.csv --volume wob.0", &["no requests to a volume \"wob.0\""]);
    folder.refused("advise missing", &["missing"]);
    folder.refused("advise text", &["text", "--format"]);
    folder.misused("advise small.csv --placement sepbti", &["sepbti", "sepbit"]);
    folder.misused("advise small.csv --victim gredy", &["gredy", "greedy"]);
    folder.misused("advise small.csv --spare 95%", &["0.02 to 0.9"]);
}
