//! An experiment file becomes points: every combination of what is swept. What is wrong in it is
//! one sentence with file, line and the nearest right word.

use mjolnir_experiment::{Changes, Plan, SHIPPED};
use mjolnir_lab::kinds;
use toml::Value;

const FILE: &str = r#"name = "mine"
title = "Mine"
source = "Here"
question = "What?"

[configuration]
pages = 64

[sweep]
spare = [0.1, 0.2]
policy = [{ label = "greedy", victim = "greedy" }, { label = "two", victim = "d-choices", choices = 2 }]

[[case]]
name = "formula"
kind = "closed-form"

[[case]]
name = "drive"
kind = "uniform-overwrites"
configuration = { erase_blocks = 64, warm = 1.0, measured = 1.0 }
[case.quick]
configuration.erase_blocks = 32
sweep.spare = [0.2]

[[figure]]
name = "waf"
title = "WAF"
x = "spare"
y = ["waf"]

[[paper]]
what = "Greedy"
number = "waf"
where = { policy = "greedy" }
by = "spare"
values = { "0.1" = 4.821 }
why = "No reason."
"#;

fn plan(changes: &Changes) -> Plan {
    Plan::new("mine.toml", FILE, changes, &kinds()).unwrap()
}

fn shown(plan: &Plan) -> Vec<String> {
    let point = |point: &mjolnir_experiment::Point| {
        let case = point.case.clone().unwrap_or_default();
        let coordinates: Vec<String> =
            point.coordinates.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let configuration = serde_json::to_string(&point.configuration).unwrap();
        format!("{case} {} {configuration}", coordinates.join(" "))
    };
    plan.points.iter().map(point).collect()
}

#[test]
fn a_sweep_is_every_combination_in_order() {
    assert_eq!(
        shown(&plan(&Changes::default())),
        [
            r#"formula policy=greedy spare=0.1 {"pages":64,"policy":{"victim":"greedy"},"spare":0.1}"#,
            r#"formula policy=greedy spare=0.2 {"pages":64,"policy":{"victim":"greedy"},"spare":0.2}"#,
            r#"formula policy=two spare=0.1 {"pages":64,"policy":{"choices":2,"victim":"d-choices"},"spare":0.1}"#,
            r#"formula policy=two spare=0.2 {"pages":64,"policy":{"choices":2,"victim":"d-choices"},"spare":0.2}"#,
            r#"drive policy=greedy spare=0.1 {"erase_blocks":64,"measured":1.0,"pages":64,"policy":{"victim":"greedy"},"spare":0.1,"warm":1.0}"#,
            r#"drive policy=greedy spare=0.2 {"erase_blocks":64,"measured":1.0,"pages":64,"policy":{"victim":"greedy"},"spare":0.2,"warm":1.0}"#,
            r#"drive policy=two spare=0.1 {"erase_blocks":64,"measured":1.0,"pages":64,"policy":{"choices":2,"victim":"d-choices"},"spare":0.1,"warm":1.0}"#,
            r#"drive policy=two spare=0.2 {"erase_blocks":64,"measured":1.0,"pages":64,"policy":{"choices":2,"victim":"d-choices"},"spare":0.2,"warm":1.0}"#,
        ]
    );
}

#[test]
fn a_quick_run_has_its_own_values() {
    let plan = plan(&Changes { quick: true, ..Changes::default() });
    let drives: Vec<_> =
        plan.points.iter().filter(|p| p.case.as_deref() == Some("drive")).collect();
    assert_eq!((plan.points.len(), drives.len()), (6, 2));
    for point in drives {
        assert_eq!(point.coordinates["spare"].to_string(), "0.2");
        assert_eq!(point.configuration["erase_blocks"], Value::Integer(32));
    }
}

#[test]
fn the_command_line_changes_what_has_the_key() {
    let set = |key: &str, value: Value| Changes {
        set: vec![(key.to_owned(), value)],
        ..Changes::default()
    };
    // One value in place of a sweep; the key stays a coordinate.
    let one = plan(&set("spare", Value::Float(0.3)));
    assert_eq!(one.points.len(), 4);
    assert!(one.points.iter().all(|point| point.coordinates["spare"].to_string() == "0.3"));
    let list = plan(&set("spare", Value::Array(vec![0.1.into(), 0.2.into(), 0.3.into()])));
    assert_eq!(list.points.len(), 12);
    // Only the drive has this one.
    let blocks = plan(&set("erase_blocks", Value::Integer(128)));
    let with: Vec<_> =
        blocks.points.iter().filter(|p| p.configuration.contains_key("erase_blocks")).collect();
    assert_eq!(with.len(), 4);
    assert!(with.iter().all(|point| point.configuration["erase_blocks"] == Value::Integer(128)));
}

#[test]
fn the_command_line_cannot_ask_for_what_would_not_count() {
    let (name, text) = SHIPPED.iter().find(|(name, _)| *name == "victim-policies").unwrap();
    let said = |key: &str, value: &str| {
        let value: toml::Table = format!("value = {value}").parse().unwrap();
        let set = vec![(key.to_owned(), value["value"].clone())];
        let changes = Changes { set, ..Changes::default() };
        Plan::new(name, text, &changes, &kinds()).map(drop).map_err(|why| why.to_string())
    };
    for (key, value, part) in [
        // What is swept would lie over it, or within it.
        ("engine", "{ victim = 'fifo' }", "engine.victim is swept"),
        ("engine.victim.name", "'fifo'", "engine.victim is swept"),
        ("workload.synthetic.job", "[]", "workload is swept"),
        ("measure.drive_writes", "0.0", "measure.drive_writes: write a finite number above 0"),
        ("measure.drive_writes", "inf", "measure.drive_writes: write a finite number above 0"),
        ("measure.requests", "0", "measure.requests: write at least 1"),
        ("measure.seconds", "-1.0", "measure.seconds: write a finite number above 0"),
        ("measure.seconds", "1.0", "measure.seconds: nothing takes time"),
        ("engine.memory_bytes", "1", "engine.memory_bytes: write at least 1M"),
        ("engine.client_streams", "0", "engine.client_streams = 0: write 1 to 8"),
        ("engine.client_streams", "9", "engine.client_streams = 9: write 1 to 8"),
    ] {
        let why = said(key, value).expect_err(key);
        assert!(why.starts_with(&format!("--set {key}: ")) && why.contains(part), "{why}");
    }
    assert_eq!(said("engine.memory_bytes", "'1M'"), Ok(()));
    assert_eq!(said("engine.victim", "'fifo'"), Ok(()));
    // Tables are joined: what lies beside a swept value counts.
    assert_eq!(said("engine", "{ cores = 2 }"), Ok(()));
    assert_eq!(said("workload.skip_bad", "true"), Ok(()));
}

#[test]
fn seeds_count_up_from_the_first() {
    let changes = Changes { seed: Some(7), seeds: Some(3), ..Changes::default() };
    assert_eq!(plan(&changes).seeds, [7, 8, 9]);
    assert_eq!(plan(&Changes::default()).seeds, [1]);
}

#[track_caller]
fn refused(from: &str, to: &str, parts: &[&str]) {
    refused_in(FILE, from, to, parts);
}

#[track_caller]
fn refused_in(file: &str, from: &str, to: &str, parts: &[&str]) {
    assert!(file.contains(from), "{from:?} is in the file");
    let said = Plan::new("mine.toml", &file.replacen(from, to, 1), &Changes::default(), &kinds())
        .expect_err("it should be refused")
        .to_string();
    assert_eq!(said.lines().count(), 1, "one sentence: {said}");
    for part in parts.iter().chain(&["mine.toml"]) {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
}

#[test]
fn what_is_wrong_has_file_line_and_the_nearest_word() {
    refused("title = \"Mine\"", "titel = \"Mine\"", &["line 2", "\"titel\"", "\"title\""]);
    refused("title = \"Mine\"", "title = 3", &["line 2", "write a text"]);
    refused("source = \"Here\"", "source = \"Here", &["line 3"]);
    refused("name = \"mine\"", "name = \"My Own\"", &["line 1", "small letters"]);
    refused("title = \"Mine\"\n", "", &["title"]);
    refused("kind = \"closed-form\"", "kind = \"closed-from\"", &["line 15", "\"closed-form\""]);
    refused("kind = \"closed-form\"", "", &["kind must be said"]);
    refused("name = \"drive\"", "name = \"formula\"", &["line 18", "another case"]);
    refused("x = \"spare\"", "x = \"\"", &["needs either x and y"]);
    refused("x = \"spare\"", "x = \"spar\"", &["line 28", "\"spar\" is not swept", "\"spare\""]);
    refused("x = \"spare\"", "x = \"policy.victim\"", &["\"policy.victim\" is not swept"]);
    refused("by = \"spare\"", "by = \"spar\"", &["line 35", "\"spar\" is not swept", "\"spare\""]);
    refused("values = { \"0.1\" = 4.821 }", "", &["needs either value, or by and values"]);
    refused("spare = [0.1, 0.2]", "spare = 0.1", &["line 10", "list"]);
    refused("spare = [0.1, 0.2]", "spare = [nan]", &["line 10", "no number"]);
    refused("{ label = \"greedy\", victim", "{ victim", &["line 11", "label"]);
    refused("label = \"two\"", "label = \"greedy\"", &["line 11", "greedy twice"]);
    refused("spare = [0.1, 0.2]", "spare = [0.1, 0.10]", &["line 10", "0.1 twice"]);
    let course = "course = \"waf\"\nstyle = \"bars\"";
    refused("x = \"spare\"\ny = [\"waf\"]", course, &["line 29", "not drawn as bars"]);
    refused("pages = 64", "pages = inf", &["line 7", "not finite"]);
}

#[test]
fn what_a_kind_refuses_has_a_line_too() {
    refused("pages = 64", "pages = 64\npagse = 1", &["\"pagse\"", "\"pages\""]);
    refused(
        "spare = [0.1, 0.2]",
        "spare = [0.1, 0.0]",
        &["line 10", "spare = 0", "nothing can be"],
    );
    refused("spare = [0.1, 0.2]", "spare = [0.1, 1.5]", &["line 10", "less than 1"]);
    refused("victim = \"greedy\"", "victim = \"greddy\"", &["line 11", "\"greedy\""]);
    refused("pages = 64", "pages = 1", &["line 7", "from 2"]);
    refused("pages = 64", "pages = -1", &["pages"]);
    refused("erase_blocks = 64", "erase_blocks = 4", &["line 20", "at least 16"]);
    refused("measured = 1.0", "measured = -1.0", &["line 20", "drive writes"]);
}

/// An experiment of the engine, on a drive of 64 MiB in segments of 512 KiB.
const STUDY: &str = r#"name = "mine"
title = "Mine"
source = "Here"
question = "What?"
kind = "simulate"

[configuration]
device.file = "disksim-ssd"
device.nand = { channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }
drive.zone_planes = 2
drive.over_provisioning = 0.25
engine.victim = "greedy"
engine.placement = "apart"
engine.pacing = "free-space"
engine.read_plan = "near"
precondition.fill = 1.0
workload.synthetic.job = [{ rw = "randwrite", bs = "4k", number_ios = 10 }]
"#;

#[test]
fn what_an_engine_cannot_do_is_refused_before_it_runs() {
    let refused = |from: &str, to: &str, parts: &[&str]| refused_in(STUDY, from, to, parts);
    refused("\"greedy\"", "\"gredy\"", &["line 12: engine.victim: ", "\"greedy\" comes nearest"]);
    refused("\"apart\"", "\"appart\"", &["line 13: engine.placement: ", "\"apart\" comes nearest"]);
    refused(
        "free-space",
        "fre-space",
        &["line 14: engine.pacing: ", "\"free-space\" comes nearest"],
    );
    refused("\"near\"", "\"neer\"", &["line 15: engine.read_plan: ", "\"near\" comes nearest"]);
    refused("= 0.25", "= 0.0", &["line 11: drive.over_provisioning: ", "fill less"]);
    Plan::new(
        "mine.toml",
        &STUDY.replace("= 0.25", "= 0.0").replace("fill = 1.0", "fill = 0.5"),
        &Changes::default(),
        &kinds(),
    )
    .expect("what is not filled needs no room");
}

/// What is set of a firmware that does not run would do nothing, misspelt or not.
#[test]
fn settings_of_the_firmware_are_refused_where_the_engine_runs() {
    for (setting, parts) in [
        ("victim = \"fifo\"", &["device.ftl.victim: ", "say engine.victim instead"][..]),
        ("placement = \"dac\"", &["device.ftl.placement: ", "say engine.placement instead"]),
        ("low_watermark = 0.1", &["device.ftl.low_watermark: ", "leave it out"]),
        ("victin = \"fifo\"", &["device.ftl.victin: ", "leave it out"]),
        ("wear_gap_mx = 5", &["device.ftl.wear_gap_mx: ", "\"wear_gap_max\" comes nearest"]),
    ] {
        let text = format!("device.ftl.{setting}\ndrive.zone_planes = 2");
        let parts: Vec<&str> = parts.iter().copied().chain(["mine.toml line 10: "]).collect();
        refused_in(STUDY, "drive.zone_planes = 2", &text, &parts);
    }
    let text = STUDY.replace("drive.over_provisioning", "device.ftl.over_provisioning");
    let text = text.replace("drive.zone_planes = 2", "device.ftl.wear_gap_max = 5");
    Plan::new("mine.toml", &text, &Changes::default(), &kinds()).unwrap();
}

/// A drive is one volume, and looks at no hints: what a job says of them would do nothing.
#[test]
fn volumes_and_stream_hints_of_jobs_are_refused() {
    for (word, field) in [("volume = 1", "field volume: 1"), ("stream = 2", "field stream: 2")] {
        let job = format!("bs = \"4k\", {word}");
        let parts = ["line 17: workload.synthetic: job \"job 1\"", field, "leave it out"];
        refused_in(STUDY, "bs = \"4k\"", &job, &parts);
    }
    let text = STUDY.replace("bs = \"4k\"", "bs = \"4k\", volume = 0");
    Plan::new("mine.toml", &text, &Changes::default(), &kinds()).unwrap();
}

#[test]
fn a_read_plan_of_a_reclaim_cost_is_refused_before_it_runs() {
    let text = STUDY
        .replace("\"simulate\"", "\"reclaim-cost\"")
        .lines()
        .filter(|line| {
            let words =
                ["drive.", "engine.victim", "engine.pl", "engine.pa", "precond", "workload"];
            !words.iter().any(|word| line.starts_with(word))
        })
        .chain(["data = { bytes = \"8M\", write_bytes = \"4K\" }"])
        .fold(String::new(), |text, line| text + line + "\n");
    Plan::new("mine.toml", &text, &Changes::default(), &kinds()).unwrap();
    refused_in(&text, "\"near\"", "\"neer\"", &["line 10: engine.read_plan: ", "\"near\""]);
}

#[test]
fn too_large_a_sweep_is_refused() {
    let list: Vec<String> = (1..=400).map(|number| format!("{}.0", number)).collect();
    let list = list.join(", ");
    let sweep = format!("spare = [0.1]\nwarm = [{list}]\nmeasured = [{list}]\n");
    refused("spare = [0.1, 0.2]", &sweep, &["100000 points"]);
}

/// A value that is made smaller for a quick run keeps its label, which published numbers go by: so it
/// says no number.
#[test]
fn labels_are_true_of_quick_runs_too() {
    let labels = |table: Option<&Value>| {
        let keys = table.and_then(Value::as_table).into_iter().flatten();
        let values = keys.filter_map(|(_, values)| values.as_array().cloned()).flatten();
        values
            .filter_map(|value| Some((value.get("label")?.as_str()?.to_owned(), value)))
            .collect::<Vec<_>>()
    };
    let mut smaller = 0;
    for (name, text) in SHIPPED {
        let file: Value = toml::from_str(text).unwrap();
        let whole = labels(file.get("sweep"));
        for (label, quick) in labels(file.get("quick").and_then(|quick| quick.get("sweep"))) {
            if whole.iter().any(|(known, value)| *known == label && *value != quick) {
                smaller += 1;
                assert!(!label.contains(|c: char| c.is_ascii_digit()), "{name}: {label}");
            }
        }
    }
    assert!(smaller > 0);
}
