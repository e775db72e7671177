//! Policies with parameters in experiments: as a text and as a table, for every key that names a policy,
//! in configurations, sweeps and cases; and called by the shortest text in results.

use std::sync::atomic::AtomicBool;

use mjolnir_experiment::{Changes, Mistake, Plan, Results, Setting, Version, parse_configuration};
use mjolnir_study::Study;

const HEAD: &str = "name = \"mine\"\ntitle = \"Mine\"\nsource = \"Here\"\nquestion = \"What?\"\n";

/// A replay of a small load.
const REPLAY: &str = r#"kind = "replay"
[configuration]
blocks = 2048
synthetic.job = [{ rw = "randwrite", random_distribution = "zipf:1.1" }]
spare = 0.2
segment_blocks = 32
warm = 2.0
measured = 2.0
placement = "apart"
victim = "greedy"
"#;

/// A study of the engine.
const ENGINE: &str = r#"kind = "simulate"
[configuration]
device.file = "disksim-ssd"
device.nand = { channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }
drive.zone_planes = 2
drive.over_provisioning = 0.25
workload.synthetic.job = [{ rw = "randwrite", bs = "4k", number_ios = 10 }]
"#;

/// The same of a page-mapped drive.
const PAGE_MAPPED: &str = r#"kind = "simulate"
[configuration]
device.file = "disksim-ssd"
device.nand = { channels = 4, planes_per_die = 1, blocks_per_plane = 64, pages_per_block = 64 }
drive.kind = "page-mapped"
device.ftl.over_provisioning = 0.25
workload.synthetic.job = [{ rw = "randwrite", bs = "4k", number_ios = 10 }]
"#;

fn plan(text: &str) -> Result<Plan, Mistake> {
    Plan::new("mine.toml", &format!("{HEAD}{text}"), &Changes::default(), &mjolnir_lab::kinds())
}

/// What a swept key is at each point.
fn swept(plan: &Plan, key: &str) -> Vec<String> {
    plan.points.iter().map(|point| point.coordinates[key].to_string()).collect()
}

#[test]
fn a_text_and_a_table_say_the_same_for_every_key() {
    for (base, key, text, table) in [
        (REPLAY, "placement", "dac:classes=4", "{ name = \"dac\", classes = 4 }"),
        (REPLAY, "victim", "d-choices:choices=3", "{ name = \"d-choices\", choices = 3 }"),
        (ENGINE, "engine.placement", "dac:classes=4", "{ name = \"dac\", classes = 4 }"),
        (
            ENGINE,
            "engine.victim",
            "age-threshold:share=0.5",
            "{ name = \"age-threshold\", share = 0.5 }",
        ),
        (ENGINE, "engine.pacing", "free-space:power=2", "{ name = \"free-space\", power = 2 }"),
        (ENGINE, "engine.read_plan", "near:gap=4", "{ name = \"near\", gap = 4 }"),
        (PAGE_MAPPED, "device.ftl.placement", "dac:classes=2", "{ name = \"dac\", classes = 2 }"),
        (PAGE_MAPPED, "device.ftl.victim", "random:seed=7", "{ name = \"random\", seed = 7 }"),
    ] {
        let sweep = |values: &str| plan(&format!("{base}[sweep]\n{key:?} = [{values}]\n"));
        for value in [format!("{text:?}"), table.to_owned()] {
            let written = sweep(&value).unwrap_or_else(|why| panic!("{key}: {why}"));
            assert_eq!(swept(&written, key), [text]);
        }
        let why = sweep(&format!("{text:?}, {table}")).unwrap_err().to_string();
        assert!(why.contains(&format!("has {text} twice")), "{why}");
        // Parameters that have their default are no others.
        let name = text.split(':').next().unwrap();
        let plain = sweep(&format!("{{ name = {name:?} }}")).unwrap();
        assert_eq!(swept(&plain, key), [name]);
    }
}

#[test]
fn the_engine_is_told_the_shortest_text() {
    let text = format!(
        "{ENGINE}engine.placement = {{ name = \"sepbit\", sample = 16, clients = 1 }}\n\
         engine.victim = \"d-choices:choices=10\"\nengine.pacing = {{ name = \"panic-only\" }}\n"
    );
    let plan = plan(&text).unwrap();
    let study: Study = parse_configuration(&plan.points[0].configuration).unwrap();
    let engine = study.engine;
    assert_eq!(
        [engine.placement, engine.victim, engine.pacing, engine.read_plan],
        ["sepbit:clients=1", "d-choices", "panic-only", "near"]
    );
}

#[test]
fn a_parameter_is_swept_by_itself() {
    let text =
        REPLAY.replace("placement = \"apart\"", "placement = { name = \"dac\", classes = 2 }");
    let of_parameter = plan(&format!("{text}[sweep]\n\"placement.classes\" = [2, 4]\n")).unwrap();
    assert_eq!(swept(&of_parameter, "placement.classes"), ["2", "4"]);
    // A case's policy replaces the experiment's, parameters and all.
    let case =
        "[[case]]\nname = \"other\"\nconfiguration = { placement = { name = \"sepbit\" } }\n";
    assert_eq!(plan(&format!("{text}{case}")).unwrap().points.len(), 1);
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    for (to, said) in [
        ("\"dac:classes=99\"", "placement policy \"dac:classes=99\": classes = 99 cannot be"),
        (
            "{ name = \"dac\", class = 4 }",
            "dac has no parameter \"class\"; \"classes\" comes nearest",
        ),
        ("{ name = \"dacs\", classes = 4 }", "\"dac\" comes nearest"),
        ("{ classes = 4 }", "a policy's table says its `name`"),
        ("4", "write a text, in quotes, or a table with a policy's `name`"),
    ] {
        for (base, key) in [
            (REPLAY, "placement"),
            (ENGINE, "engine.placement"),
            (PAGE_MAPPED, "device.ftl.placement"),
        ] {
            let text = match base == REPLAY {
                true => base.replace("placement = \"apart\"", &format!("placement = {to}")),
                false => format!("{base}{key} = {to}\n"),
            };
            let written = format!(" = {to}");
            let line =
                format!("{HEAD}{text}").lines().position(|l| l.ends_with(&written)).unwrap() + 1;
            let why = plan(&text).unwrap_err().to_string();
            // A device's file has words of its own for a value of another sort.
            if base == PAGE_MAPPED && to == "4" {
                assert!(why.contains("a table with a policy's `name`"), "{why}");
                continue;
            }
            assert!(why.contains(said), "{key} = {to}: {why}");
            if base != PAGE_MAPPED {
                assert!(
                    why.contains(&format!("line {line}")),
                    "{key} = {to}: {why}, not line {line}"
                );
            }
        }
    }
}

#[test]
fn results_call_a_policy_by_its_shortest_text_and_both_ways_have_one_figure() {
    let text = format!(
        "{REPLAY}[sweep]\nplacement = [\"dac:classes=3\", \"dac\"]\n\
         victim = [\"greedy\", {{ name = \"windowed-greedy\", window = 0.25 }}]\n"
    );
    let as_text = results(&text);
    let as_table = results(&text.replace("\"dac:classes=3\"", "{ name = \"dac\", classes = 3 }"));
    let wafs = |results: &Results| -> Vec<(String, String)> {
        let of = |point: &mjolnir_experiment::PointResult| {
            let number = &point.numbers["waf"];
            let coordinates: Vec<String> =
                point.coordinates.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (coordinates.join(" "), format!("{number:?}"))
        };
        results.points.iter().map(of).collect()
    };
    let names: Vec<String> = wafs(&as_text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "placement=dac:classes=3 victim=greedy",
            "placement=dac:classes=3 victim=windowed-greedy:window=0.25",
            "placement=dac victim=greedy",
            "placement=dac victim=windowed-greedy:window=0.25",
        ]
    );
    assert_eq!(wafs(&as_text), wafs(&as_table));
    let numbers: std::collections::BTreeSet<String> =
        wafs(&as_text).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers.len(), 4, "parameters count");
}

fn results(text: &str) -> Results {
    let folder = tempfile::tempdir().unwrap();
    let version = Version { version: "1.0.0".to_owned(), build: "a".to_owned() };
    let stop = AtomicBool::new(false);
    let setting = Setting { folder: folder.path(), report: None, jobs: 2, version, stop: &stop };
    plan(text).unwrap().run(&setting, &|_| {}).unwrap()
}

/// The formula knows how many are drawn, whichever way that is said.
#[test]
fn a_formula_takes_the_parameter() {
    let waf = |policy: &str| {
        let text = format!(
            "kind = \"closed-form\"\n[configuration]\nspare = 0.2\npages = 32\npolicy = {policy}\n"
        );
        results(&text).points[0].numbers["waf"].mean
    };
    let two = waf("{ victim = \"d-choices\", choices = 2 }");
    assert_eq!(waf("{ victim = \"d-choices:choices=2\" }"), two);
    assert_eq!(waf("{ victim = { name = \"d-choices\", choices = 2 } }"), two);
    assert!(waf("{ victim = \"d-choices\" }") < two, "ten are better than two");
}
