//! Advice, for people.

use std::path::Path;

use mjolnir_advise::{Advice, Choice, Latency, Measure, Verdict};
use mjolnir_experiment::Estimate;
use mjolnir_experiment::report::Lead;

use crate::format;
use crate::output::{self, Table};

/// A write amplification below which there is next to nothing to win.
const LITTLE: f64 = 1.02;

/// The whole of it: what to do first, then what it wins, how sure that is, and by which rules.
pub(super) fn text(
    trace: &str,
    rules: &[String],
    advice: &Advice,
    report: Option<&Path>,
) -> String {
    let mut text = format!("{trace}: {}\n\n{}", headline(advice), details(rules, advice));
    match report {
        Some(page) => text += &format!("\nreport: {}\n", page.display()),
        None => text += "\n--out FOLDER keeps all results, and a report on them.\n",
    }
    text
}

/// The same as the beginning of a report.
pub(super) fn lead(trace: &str, rules: &[String], advice: &Advice) -> Lead {
    Lead {
        title: format!("Advice on {trace}"),
        answer: headline(advice),
        details: details(rules, advice),
        command: command_line(),
    }
}

/// What was typed; none where it would not ask the same again: of another standard input.
fn command_line() -> Option<String> {
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    let words = words.filter(|words| !words.iter().any(|word| word == "-"))?;
    let quoted = words.iter().map(|word| output::quoted(Path::new(word)));
    Some(std::iter::once("mjolnir".to_owned()).chain(quoted).collect::<Vec<_>>().join(" "))
}

/// All but the headline.
fn details(rules: &[String], advice: &Advice) -> String {
    let mut lines = vec![command(advice), String::new()];
    lines.extend(wins(advice));
    lines.push(String::new());
    let mut text = lines.join("\n") + "\n" + &spares(advice);
    text += "\nHow it was found out\n";
    for rule in rules.iter().chain(&advice.notes) {
        text += &format!("  {rule}\n");
    }
    text + "  spare: where the space bought, times write amplification, is least\n"
}

fn headline(advice: &Advice) -> String {
    let (best, default) = (&advice.best, &advice.default);
    match advice.verdict {
        Verdict::Choose => {
            let on_engine = advice.lab_win.map_or(String::new(), |win| {
                format!(" in the replay, {} less on the engine", output::percent(win.mean))
            });
            format!(
                "choose {}: {} less is written than by default{on_engine}",
                advice.choice,
                output::percent(advice.win.mean)
            )
        }
        Verdict::WithinSpread if default.waf.mean < LITTLE => format!(
            "keep the default ({}): replayed, it moves next to none of the data (WAF {:.3}), so \
             there is nothing to win",
            advice.choice, default.waf.mean
        ),
        Verdict::WithinSpread if best.choice == default.choice => {
            "keep the default: nothing else was tried with success".to_owned()
        }
        Verdict::WithinSpread => {
            format!("keep the default ({}): {} cannot be told from it", advice.choice, best.choice)
        }
        Verdict::NotToldApart => format!(
            "keep the default ({}): {} writes {} less in the replay, but on the engine the two \
             cannot be told apart",
            advice.choice,
            best.choice,
            output::percent(advice.win.mean),
        ),
        Verdict::NotInTheLab => format!(
            "keep the default ({}): {} writes {} less in the replay, but {} more on the engine",
            advice.choice,
            best.choice,
            output::percent(advice.win.mean),
            output::percent(-advice.lab_win.map_or(0.0, |win| win.mean)),
        ),
    }
}

/// The line that serves a store so.
fn serve(Choice { placement, victim }: &Choice) -> String {
    format!("mjolnir serve STORE --placement {placement} --policy {victim}")
}

/// What to give the server, and how large the store should be.
fn command(advice: &Advice) -> String {
    // The spare factor is of segments of data alone; a store has some for its map and in reserve, too.
    let least = format::store_bytes(advice.data_bytes);
    let more = match least > advice.store_bytes {
        true => format!("; a store of {} takes them in beside what it keeps", output::bytes(least)),
        false => String::new(),
    };
    format!(
        "  mjolnir format STORE --size {}M\n  {}\n  spare {}: {} for these {} of data{more}",
        advice.store_bytes.max(least).div_ceil(1 << 20),
        serve(&advice.choice),
        output::percent(advice.spare),
        output::bytes(advice.store_bytes),
        output::bytes(advice.data_bytes),
    )
}

fn measured(measure: &Measure) -> String {
    estimate(&measure.waf)
}

fn estimate(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(half) => format!("{:.3} ± {half:.3}", estimate.mean),
        None => format!("{:.3}", estimate.mean),
    }
}

/// The default, the best and the bound, side by side.
fn wins(advice: &Advice) -> Vec<String> {
    let best = (advice.best.choice != advice.default.choice).then_some(&advice.best);
    let mut table = Table::new(&["", ">DEFAULT", ">BEST OTHER", ">FUTURE KNOWN"]);
    let dash = || "–".to_owned();
    let mut row = |name: &str, a: String, b: Option<String>, c: Option<String>| {
        table.row(vec![format!("  {name}"), a, b.unwrap_or_else(dash), c.unwrap_or_else(dash)]);
    };
    let future = advice.future.as_ref();
    row(
        "placement",
        advice.default.choice.placement.clone(),
        best.map(|best| best.choice.placement.clone()),
        future.map(|future| future.choice.placement.clone()),
    );
    row(
        "victim",
        advice.default.choice.victim.clone(),
        best.map(|best| best.choice.victim.clone()),
        future.map(|future| future.choice.victim.clone()),
    );
    row(
        "WAF of data, replayed",
        measured(&advice.default),
        best.map(measured),
        future.map(measured),
    );
    if let Some(default) = &advice.lab_default {
        let best = advice.lab_best.as_ref().filter(|_| best.is_some());
        let waf = |latency: &Latency| estimate(&latency.waf_data);
        row("WAF of data, engine", waf(default), best.map(waf), None);
        let waf = |latency: &Latency| format!("{:.3}", latency.waf);
        row("WAF in all, engine", waf(default), best.map(waf), None);
        type Figure = fn(&Latency) -> Option<f64>;
        let figures: [(&str, Figure); 5] = [
            ("write p50", |latency| latency.write_p50_us),
            ("write p99", |latency| latency.write_p99_us),
            ("write p99.9", |latency| latency.write_p99_9_us),
            ("read p99", |latency| latency.read_p99_us),
            ("read p99.9", |latency| latency.read_p99_9_us),
        ];
        for (name, figure) in figures.into_iter().filter(|_| advice.lab_keeps_up) {
            let shown = |latency: &Latency| figure(latency).map(microseconds);
            if let Some(default) = shown(default) {
                row(name, default, best.and_then(shown), None);
            }
        }
    }
    match advice.life_years {
        Some([default, with_best]) => {
            row("flash life", years(default), best.map(|_| years(with_best)), None);
        }
        None => row("flash life", "too short a trace".to_owned(), None, None),
    }
    let mut lines: Vec<String> = table.text().lines().map(str::to_owned).collect();
    lines.push(String::new());
    if best.is_some() {
        let interval = advice.win.ci95.map(|half| format!(" ± {}", output::percent(half)));
        // The means above are of all places; these compare the two at each.
        let mut said = vec![format!(
            "Compared at each start ({} in the trace), the best other {}{} of all writes, ± {} \
             between halves of it{}",
            advice.win.runs,
            saves(&advice.win),
            interval.unwrap_or_default(),
            output::percent(advice.halves_spread),
            unsure(&advice.win, advice.spread),
        )];
        if let (Some(win), Some(spread)) = (&advice.lab_win, advice.lab_spread) {
            said.push(format!(
                "on the engine it {} ± {} of data writes ({}){}",
                saves(win),
                output::percent(spread),
                output::count(win.runs.into(), "start"),
                unsure(win, spread),
            ));
        }
        // What is not advised has nothing to promise.
        if advice.verdict == Verdict::Choose {
            said.push(format!(
                "flash lives {:.2} times as long: life goes with 1 / WAF, as replayed",
                advice.life_ratio
            ));
        }
        lines.push(format!("  {}.", said.join(";\n  ")));
    }
    if !advice.as_good.is_empty() {
        let names: Vec<String> = advice.as_good.iter().map(|good| format!("({good})")).collect();
        lines.push(format!("  The replay cannot tell the best from {}.", names.join(" or ")));
    }
    if let Some(room) = advice.room_left() {
        lines.push(match room > 0.005 {
            true => format!(
                "  With the future known, {} less would be written than by the better of them: so \
                 much room is left.",
                output::percent(room)
            ),
            false => "  Policies that know the future do no better: no room is left that we know \
                      of."
            .to_owned(),
        });
    }
    if advice.life_years.is_some() {
        lines.push(format!(
            "  Years of life assume {} erases of all flash alike, and writes at the trace's rate \
             for ever.",
            advice.endurance_cycles
        ));
    }
    lines
}

fn saves(win: &Estimate) -> String {
    let verb = if win.mean < 0.0 { "costs" } else { "saves" };
    format!("{verb} {}", output::percent(win.mean.abs()))
}

fn unsure(win: &Estimate, spread: f64) -> &'static str {
    if win.mean.abs() <= spread { ": too uncertain to tell" } else { "" }
}

fn microseconds(us: f64) -> String {
    output::time((us * 1e3) as u64)
}

fn years(years: f64) -> String {
    match years {
        0.0..0.003 => format!("{:.1} hours", years * 365.25 * 24.0),
        0.003..0.3 => format!("{:.1} days", years * 365.25),
        0.3..1000.0 => format!("{years:.1} years"),
        _ => "> 1000 years".to_owned(),
    }
}

/// Each spare size.
fn spares(advice: &Advice) -> String {
    let heads = ["", ">SPARE", ">DEFAULT", ">BEST", ">FUTURE KNOWN", "BEST IS"];
    let mut table = Table::new(&heads);
    for at in &advice.spares {
        let waf = |waf: Option<f64>| waf.map_or("no room".to_owned(), |waf| format!("{waf:.3}"));
        table.row(vec![
            if at.spare == advice.spare { "  *" } else { "" }.to_owned(),
            output::percent(at.spare),
            waf(at.default_waf),
            waf(Some(at.best_waf)),
            waf(at.future_waf),
            at.best.to_string(),
        ]);
    }
    format!(
        "WAF of data by spare size, replayed once from one place of the trace; BEST is of all, the \
         default among them\n{}",
        table.text()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn what_a_single_run_wins_is_too_uncertain_to_tell() {
        // Its spread is all of it.
        let told =
            |mean: f64, spread| !unsure(&Estimate { mean, ci95: None, runs: 1 }, spread).is_empty();
        assert!(told(0.12, 0.12) && told(-0.12, 0.12) && !told(0.12, 0.11));
    }

    #[test]
    fn the_line_for_the_server_is_one_that_it_takes() {
        for placement in mjolnir_policy::placement::names() {
            for victim in mjolnir_policy::victim::names() {
                let choice = Choice { placement: placement.to_owned(), victim: victim.to_owned() };
                let line = serve(&choice);
                let parsed = Arguments::try_parse_from(line.split(' '))
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                let Some(Command::Serve(options)) = parsed.command else {
                    panic!("{line} does not serve");
                };
                assert_eq!((&*options.placement, &*options.policy), (placement, victim), "{line}");
            }
        }
    }
}
