//! The report opens in a browser from a file, by itself, and every figure of it is drawn.

use crate::real_support::tools;
use crate::support::Folder;

#[test]
fn a_report_opens_in_chromium_with_every_figure_drawn() {
    if !tools::present("a_report_opens_in_chromium_with_every_figure_drawn", &["chromium"]) {
        return;
    }
    let folder = Folder::empty();
    folder.ok("lab run all --quick --out out");
    let address = format!("file://{}", folder.path("out/report.html").display());
    let profile = format!("--user-data-dir={}", folder.path("profile").display());
    let dom = tools::ok(
        "chromium",
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            // Nothing may come from elsewhere.
            "--proxy-server=127.0.0.1:9",
            &profile,
            "--dump-dom",
            &address,
        ],
    );
    assert!(dom.contains("class=\"scripted\""), "the page's script ran");
    let listed: serde_json::Value = serde_json::from_str(&folder.ok("lab list --json")).unwrap();
    let figures: Vec<&str> = dom.split("<figure ").skip(1).collect();
    let wanted = listed.as_array().unwrap().iter().flat_map(|e| {
        let name = e["name"].as_str().unwrap();
        let figures = e["figures"].as_array().unwrap();
        figures.iter().map(move |figure| format!("{name}-{}", figure.as_str().unwrap()))
    });
    let mut count = 0;
    for name in wanted {
        count += 1;
        let of = |figure: &&&str| figure.starts_with(&format!("data-name=\"{name}\""));
        let figure = figures.iter().find(of).unwrap_or_else(|| panic!("no figure {name}"));
        let figure = figure.split("</figure>").next().unwrap();
        // The drawing that is shown, with what it is made of.
        let shown = figure.split("<div data-x=").find(|part| {
            part.contains("<svg") && !part.split('>').next().unwrap().contains("hidden")
        });
        let shown = shown.unwrap_or_else(|| panic!("{name}: no drawing is shown"));
        assert!(shown.contains("class=\"series"), "{name}: no series");
        let marks = ["class=\"line\"", "class=\"mark", "class=\"bar\""];
        assert!(marks.iter().any(|mark| shown.contains(mark)), "{name}: nothing is drawn");
        assert!(!shown.contains("NaN") && shown.contains("class=\"tick\""), "{name}: axes");
    }
    assert_eq!(figures.len(), count, "every figure is one of an experiment");
}
