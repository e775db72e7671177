//! The results of an experiment are the same, byte for byte, with any number of jobs, and after an
//! interruption; what was kept is used again only for what it is of.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use mjolnir_experiment::{Changes, Event, Plan, Results, RunError, Setting, Version, report};
use mjolnir_lab::kinds;

const FILE: &str = r#"name = "mine"
title = "Mine"
source = "Here"
question = "What?"
kind = "uniform-overwrites"

[configuration]
pages = 16
erase_blocks = 64
warm = 1.0
measured = 1.0
policy.victim = "greedy"

[sweep]
spare = [0.2, 0.3, 0.4]
"policy.victim" = ["greedy", "random"]

[[figure]]
name = "waf"
title = "WAF"
x = "spare"
y = ["waf"]

[[figure]]
name = "course"
title = "Course"
course = "waf"
"#;

fn plan(text: &str, seeds: u32) -> Plan {
    let changes = Changes { seeds: Some(seeds), ..Changes::default() };
    Plan::new("mine.toml", text, &changes, &kinds()).unwrap()
}

fn version(build: &str) -> Version {
    Version { version: "1.0.0".to_owned(), build: build.to_owned() }
}

/// Runs it; answers what came of it, and how many runs were kept from before.
fn run(plan: &Plan, folder: &Path, jobs: usize, build: &str) -> (Result<Results, RunError>, usize) {
    let (stop, kept) = (AtomicBool::new(false), AtomicUsize::new(0));
    let setting =
        Setting { folder, report: Some(folder), jobs, version: version(build), stop: &stop };
    let results = plan.run(&setting, &|event| {
        if let Event::Begun { kept: found, .. } = event {
            kept.store(found, Relaxed);
        }
    });
    (results, kept.into_inner())
}

#[test]
fn one_job_or_three_and_once_or_twice_are_the_same() {
    let plan = plan(FILE, 2);
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut texts = Vec::new();
    for (folder, jobs) in folders.iter().zip([1, 3, 1]) {
        let (results, kept) = run(&plan, folder.path(), jobs, "a");
        let results = results.unwrap();
        assert_eq!((kept, results.points.len()), (0, 6));
        texts.push((results.to_json(), results.to_csv(), results.to_summary_csv()));
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0], texts[2]);
    // Again, with everything there: read from files, to the last bit.
    let (results, kept) = run(&plan, folders[0].path(), 2, "a");
    assert_eq!(kept, 12);
    assert_eq!(results.unwrap().to_json(), texts[0].0);
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_stood() {
    let plan = plan(FILE, 1);
    let folder = tempfile::tempdir().unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let version = version("a");
    let setting = Setting { folder: folder.path(), report: None, jobs: 1, version, stop: &stop };
    let stopped = plan.run(&setting, &|event| {
        if matches!(event, Event::Done(_)) && done.fetch_add(1, Relaxed) == 2 {
            stop.store(true, Relaxed);
        }
    });
    assert_eq!(stopped, Err(RunError::Stopped { kept: 3, runs: 6 }));
    assert!(!folder.path().join("results.json").exists());
    let (resumed, kept) = run(&plan, folder.path(), 2, "a");
    assert_eq!(kept, 3);
    let fresh = tempfile::tempdir().unwrap();
    let (whole, _) = run(&plan, fresh.path(), 2, "a");
    assert_eq!(resumed.unwrap().to_json(), whole.unwrap().to_json());
}

#[test]
fn only_results_of_exactly_that_are_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let kept = |text: &str, seeds, build| run(&plan(text, seeds), folder.path(), 2, build).1;
    assert_eq!(kept(FILE, 1, "a"), 0);
    assert_eq!(kept(FILE, 1, "a"), 6);
    assert_eq!(kept(FILE, 2, "a"), 6, "further seeds are run besides");
    assert_eq!(kept(FILE, 1, "b"), 0, "another program");
    let changed = FILE.replace("warm = 1.0", "warm = 2.0");
    assert_eq!(kept(&changed, 1, "a"), 0, "another configuration");
    let titled = FILE.replace("title = \"Mine\"", "title = \"Other\"");
    assert_eq!(kept(&titled, 1, "a"), 6, "a title changes no run");
}

/// Nor does their report; what else lies beside its figures stays.
#[test]
fn results_of_before_do_not_pass_for_those_to_come() {
    let folder = tempfile::tempdir().unwrap();
    let (results, _) = run(&plan(FILE, 1), folder.path(), 2, "a");
    let results = results.unwrap();
    results.write(folder.path()).unwrap();
    report::write(folder.path(), &[results]).unwrap();
    let path = |name: &str| folder.path().join(name);
    // A copy that somebody keeps.
    std::fs::copy(path("figures/mine-waf.svg"), path("figures/own.svg")).unwrap();
    let there = || {
        ["report.html", "figures/mine-waf.svg", "figures/own.svg"].map(|name| path(name).exists())
    };
    // Nothing is missing, so nothing is replaced.
    run(&plan(FILE, 1), folder.path(), 2, "a").0.unwrap();
    assert_eq!(there(), [true; 3]);
    let stop = AtomicBool::new(true);
    let setting = Setting {
        folder: folder.path(),
        report: Some(folder.path()),
        jobs: 1,
        version: version("b"),
        stop: &stop,
    };
    let stopped = plan(FILE, 1).run(&setting, &|_| {});
    assert_eq!(stopped, Err(RunError::Stopped { kept: 0, runs: 6 }));
    assert!(Results::read_all(folder.path()).is_err());
    assert_eq!(there(), [false, false, true]);
}

#[test]
fn figures_that_an_experiment_has_no_more_go_with_the_next_report() {
    let folder = tempfile::tempdir().unwrap();
    let there = || {
        ["mine-waf.svg", "mine-other.svg"]
            .map(|name| folder.path().join("figures").join(name))
            .map(|path| path.exists())
    };
    for (text, wanted) in [
        (FILE.to_owned(), [true, false]),
        (FILE.replace("name = \"waf\"", "name = \"other\""), [false, true]),
    ] {
        let results = run(&plan(&text, 1), folder.path(), 2, "a").0.unwrap();
        report::write(folder.path(), &[results]).unwrap();
        assert_eq!(there(), wanted);
    }
}

#[test]
fn results_read_back_are_the_same_and_say_what_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    let results = run(&plan(FILE, 2), folder.path(), 2, "a").0.unwrap();
    results.write(folder.path()).unwrap();
    assert_eq!(Results::read_all(folder.path()).unwrap(), std::slice::from_ref(&results));
    let csv = results.to_csv();
    let head = csv.lines().next().unwrap();
    assert!(head.starts_with("experiment,version,build,kind,case,policy.victim,spare,seed,"));
    assert_eq!(csv.lines().count(), 13, "a head and a row for each run");
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("mine,1.0.0,a,uniform-overwrites,,greedy,0.2,1,"), "{first}");
    assert!(first.contains("\"\"erase_blocks\"\":64"), "{first}");
    let waf = &results.points[0].numbers["waf"];
    assert!(waf.runs == 2 && waf.ci95.is_some_and(|half| half > 0.0), "{waf:?}");
}

#[test]
fn damaged_results_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    std::fs::write(&path, "{\n\"format\": 1,\n").unwrap();
    let said = Results::read_all(folder.path()).unwrap_err();
    assert!(said.contains("results.json line 3"), "{said}");
    // Its name would be that of a file elsewhere.
    run(&plan(FILE, 1), folder.path(), 1, "a").0.unwrap().write(folder.path()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let (own, other) = ("\"name\": \"mine\"", "\"name\": \"../../mine\"");
    assert_eq!(text.matches(own).count(), 1, "{text}");
    std::fs::write(&path, text.replace(own, other)).unwrap();
    let said = Results::read_all(folder.path()).unwrap_err();
    assert!(said.contains("results.json") && said.contains("\"../../mine\" is no name"), "{said}");
    let nothing = tempfile::tempdir().unwrap();
    let said = Results::read_all(nothing.path()).unwrap_err();
    assert!(said.contains("has no results"), "{said}");
}

#[test]
fn a_report_draws_every_figure() {
    let folder = tempfile::tempdir().unwrap();
    let results = run(&plan(FILE, 2), folder.path(), 2, "a").0.unwrap();
    assert_eq!(report::troubles(&results), []);
    report::write(folder.path(), std::slice::from_ref(&results)).unwrap();
    let html = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(html.matches("<figure").count(), 2);
    assert!(!html.contains("http://") || !html.contains("src=\"http"), "nothing from elsewhere");
    for name in ["mine-waf.svg", "mine-course.svg"] {
        let svg = std::fs::read_to_string(folder.path().join("figures").join(name)).unwrap();
        assert!(svg.contains("class=\"series"), "{name}");
    }
    assert_eq!(html, report::html(&[results], None), "the same results give the same page");
}

#[test]
fn a_figure_of_nothing_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = FILE.replace("y = [\"waf\"]", "y = [\"wav\"]");
    let results = run(&plan(&text, 1), folder.path(), 2, "a").0.unwrap();
    let troubles = report::troubles(&results);
    assert_eq!(troubles.len(), 1);
    let why = &troubles[0].why;
    assert!(troubles[0].never && why.contains("wav") && why.contains("closed_form_waf"), "{why}");
}

/// All runs of an experiment would write the same file.
#[test]
fn files_that_a_run_leaves_are_left_by_one_run_alone_and_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    let text = format!(
        "name = \"mine\"
        title = \"Mine\"
        source = \"Here\"
        question = \"What?\"
        kind = \"simulate\"
        [configuration]
        device = {{ file = \"disksim-ssd\", nand = {{ channels = 2, planes_per_die = 1, blocks_per_plane = 64 }} }}
        drive = {{ bytes = \"8M\", zone_planes = 2 }}
        workload.synthetic.job = [{{ rw = \"randwrite\", bs = \"4k\" }}]
        measure = {{ requests = 100, log = {log:?} }}
        "
    );
    let two = Changes { seeds: Some(2), ..Changes::default() };
    let refused = Plan::new("mine.toml", &text, &two, &kinds()).unwrap_err().to_string();
    assert!(refused.contains("measure.log: all 1 points with 2 seeds each"), "{refused}");
    let save = text.replace("log = ", "requests = 1 }\nprecondition = { save = ");
    let save = save.replace("requests = 100, requests", "requests");
    let refused = Plan::new("mine.toml", &save, &two, &kinds()).unwrap_err().to_string();
    assert!(refused.contains("precondition.save: all 1 points"), "{refused}");
    let plan = plan(&text, 1);
    for _ in 0..2 {
        let (results, kept) = run(&plan, folder.path(), 1, "a");
        assert_eq!((results.unwrap().failures.len(), kept), (0, 0));
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 101);
        std::fs::remove_file(&log).unwrap();
    }
}
