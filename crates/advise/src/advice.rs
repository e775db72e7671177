//! The conclusion.

use mjolnir_experiment::{Estimate, PointResult, Results};
use mjolnir_units::BLOCK_SIZE;
use serde::Serialize;

use super::stages::placed;
use super::{Choice, Prepared, Shortlist};

/// A win below this share is none that anybody would notice.
const WIN_MIN: f64 = 0.005;
/// An engine that moves this many times as much as the replay deserves a word on why.
const AHEAD: f64 = 2.0;
/// A drive on which requests wait longer than this cannot keep up ...
const KEEPS_UP_US: f64 = 1e6;
/// ... nor one on which they wait for more than this share of all the time that was measured.
const KEEPS_UP_SHARE: f64 = 0.1;
/// From less than this nobody can tell how much a load writes in a year.
const LIFE_SPAN_MIN_NS: u64 = 60_000_000_000;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Take the choice.
    Choose,
    /// Nothing that was tried beats the default by more than the spread.
    WithinSpread,
    /// The replay found a better one, but on the engine the two cannot be told apart.
    NotToldApart,
    /// The replay found a better one, but on the engine it writes more.
    NotInTheLab,
}

/// A write amplification, and how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The policies.
    #[serde(flatten)]
    pub choice: Choice,
    /// The write amplification.
    pub waf: Estimate,
}

/// What was found at a spare factor: the default, the best choice, the bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtSpare {
    /// The spare factor.
    pub spare: f64,
    /// Write amplification of the default; none if it had no room.
    pub default_waf: Option<f64>,
    /// The best choice.
    pub best: Choice,
    /// Its write amplification.
    pub best_waf: f64,
    /// The least with the future known.
    pub future_waf: Option<f64>,
}

/// What a run on the engine showed. Times are in microseconds, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Write amplification of data: what policies decide, and what the replay counts.
    pub waf_data: Estimate,
    /// Write amplification, metadata and padding included.
    pub waf: f64,
    /// Half of all writes take no longer.
    pub write_p50_us: Option<f64>,
    /// Of a hundred writes, 99 take no longer.
    pub write_p99_us: Option<f64>,
    /// Of a thousand writes, 999 take no longer.
    pub write_p99_9_us: Option<f64>,
    /// Of a hundred reads, 99 take no longer.
    pub read_p99_us: Option<f64>,
    /// Of a thousand reads, 999 take no longer.
    pub read_p99_9_us: Option<f64>,
}

/// Advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What to do.
    pub verdict: Verdict,
    /// What to choose.
    pub choice: Choice,
    /// The spare factor to give the store.
    pub spare: f64,
    /// Bytes of the trace's data.
    pub data_bytes: u64,
    /// Bytes of a store for them.
    pub store_bytes: u64,
    /// What the default writes.
    pub default: Measure,
    /// What the best choice writes, be it the advice or not.
    pub best: Measure,
    /// Others of the best few that the replay cannot tell from the best.
    pub as_good: Vec<Choice>,
    /// What policies that know the future write.
    pub future: Option<Measure>,
    /// The share of writes that the best choice saves against the default, paired by seed.
    pub win: Estimate,
    /// Half of how far apart the wins are in both halves of what was counted.
    pub halves_spread: f64,
    /// What the win must exceed: the larger of the confidence interval and that of the halves.
    pub spread: f64,
    /// How many times as long flash lives under the best choice: the ratio of write
    /// amplifications.
    pub life_ratio: f64,
    /// Years until the store's flash is worn, under the default and under the best choice; none for
    /// a trace too short to tell.
    pub life_years: Option<[f64; 2]>,
    /// What `life_years` assumes: erases that flash withstands.
    pub endurance_cycles: u64,
    /// The default on the engine; none if it did not run.
    pub lab_default: Option<Latency>,
    /// The best choice on the engine.
    pub lab_best: Option<Latency>,
    /// The share of data writes that the best choice saves on the engine, paired by seed.
    pub lab_win: Option<Estimate>,
    /// What that must exceed, as `spread`.
    pub lab_spread: Option<f64>,
    /// Whether the simulated drive keeps up with the trace's times: else latencies are those of a
    /// queue that grows.
    pub lab_keeps_up: bool,
    /// Each spare factor.
    pub spares: Vec<AtSpare>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Advice {
    /// Draws the conclusion.
    ///
    /// # Errors
    ///
    /// A sentence: runs that it needs failed.
    pub fn of(
        prepared: &Prepared,
        grid: &Results,
        list: &Shortlist,
        trial: &Results,
        endurance_cycles: u64,
    ) -> Result<Advice, String> {
        let point = |choice: &Choice| {
            let name = choice.to_string();
            trial.points.iter().find(|point| point.case.as_ref() == Some(&name))
        };
        let measure = |choice: &Choice| {
            let waf = *point(choice)?.numbers.get("waf")?;
            Some(Measure { choice: choice.clone(), waf })
        };
        let spare = list.spare;
        let Some(default) = measure(&Choice::default()) else {
            return Err(format!(
                "the default placement found no room to reclaim in at a spare factor of {spare}: \
                 try larger ones with --spare"
            ));
        };
        let best = list.best.iter().filter_map(measure);
        let best = best.min_by(|a, b| a.waf.mean.total_cmp(&b.waf.mean));
        let best = best.unwrap_or_else(|| default.clone());
        let future = list.future.as_ref().and_then(measure);
        let win_of = |choice: &Choice, over: &Choice| {
            Win::of(point(choice), point(over), ["waf", "waf_first_half", "waf_second_half"])
        };
        let Win { win, halves_spread, spread } = win_of(&best.choice, &default.choice);
        let wins = win.mean >= WIN_MIN && win.mean > spread;
        let others = list.best.iter().filter(|choice| **choice != best.choice);
        let told_apart = |other: &Choice| {
            let Win { win, spread, .. } = win_of(&best.choice, other);
            win.mean >= WIN_MIN && win.mean > spread
        };
        let as_good = others.filter(|other| point(other).is_some() && !told_apart(other));
        let as_good = as_good.cloned().collect();
        let (verdict, choice) = match wins {
            true => (Verdict::Choose, best.choice.clone()),
            false => (Verdict::WithinSpread, default.choice.clone()),
        };
        let data_bytes = prepared.blocks * BLOCK_SIZE;
        let store_bytes = (data_bytes as f64 / (1.0 - spare)).ceil() as u64;
        let life_years = (prepared.span_ns >= LIFE_SPAN_MIN_NS).then(|| {
            let years = prepared.span_ns as f64 / 1e9 / (365.25 * 86_400.0);
            let a_year = (prepared.written_blocks * BLOCK_SIZE) as f64 / years;
            let all = store_bytes as f64 * endurance_cycles as f64;
            [default.waf.mean, best.waf.mean].map(|waf| all / (a_year * waf))
        });
        Ok(Advice {
            verdict,
            choice,
            spare,
            data_bytes,
            store_bytes,
            life_ratio: default.waf.mean / best.waf.mean,
            default,
            best,
            as_good,
            future,
            win,
            halves_spread,
            spread,
            life_years,
            endurance_cycles,
            lab_default: None,
            lab_best: None,
            lab_win: None,
            lab_spread: None,
            lab_keeps_up: true,
            spares: spares(grid),
            notes: match life_years {
                Some(_) => Vec::new(),
                None => vec![format!(
                    "flash life in years: the trace spans {:.3} s, and from less than {} s nobody \
                     can tell how much is written in a year",
                    prepared.span_ns as f64 / 1e9,
                    LIFE_SPAN_MIN_NS / 1_000_000_000
                )],
            },
        })
    }

    /// Takes account of how both did on the engine.
    pub fn add_lab(&mut self, lab: &Results) {
        for failed in &lab.failures {
            self.notes.push(format!("on the engine: {failed}"));
        }
        let point = |choice: &Choice| {
            let name = choice.to_string();
            lab.points.iter().find(|point| point.case.as_ref() == Some(&name))
        };
        let (ours, theirs) = (point(&self.best.choice), point(&self.default.choice));
        self.lab_default = theirs.and_then(Latency::of);
        self.lab_best = ours.and_then(Latency::of);
        let (Some(default), Some(best)) = (&self.lab_default, &self.lab_best) else {
            let why = "the engine did not run in the lab, so the advice rests on the replay alone";
            self.notes.push(why.to_owned());
            return;
        };
        let halves = ["waf_data", "waf_data_first_half", "waf_data_second_half"];
        let Win { win, spread, .. } = Win::of(ours, theirs, halves);
        (self.lab_win, self.lab_spread) = (Some(win), Some(spread));
        if self.verdict == Verdict::Choose && !(win.mean >= WIN_MIN && win.mean > spread) {
            self.verdict = match win.mean < 0.0 && -win.mean > spread {
                true => Verdict::NotInTheLab,
                false => Verdict::NotToldApart,
            };
            self.choice = self.default.choice.clone();
        }
        self.notes.push(
            "on the engine, the drive was filled and written over by the trace before it was \
             measured; its reclaim does not wait until space is gone as the replay's does, and \
             it has segments of other sizes: compare its figures across columns, not with the \
             replay's"
                .to_owned(),
        );
        let (engine, replay) = (default.waf_data.mean - 1.0, self.default.waf.mean - 1.0);
        if engine > AHEAD * replay.max(WIN_MIN) {
            self.notes.push(format!(
                "by default the engine moves {engine:.2} blocks for each that clients write, and \
                 the replay {replay:.2}: pacing reclaims ahead of need while the load leaves it time"
            ));
        }
        let waits = |latency: &Latency, point: Option<&PointResult>| {
            let elapsed_s = point.and_then(|point| point.numbers.get("elapsed_s"));
            let elapsed_us = elapsed_s.map_or(f64::INFINITY, |elapsed| elapsed.mean * 1e6);
            let most = KEEPS_UP_US.min(KEEPS_UP_SHARE * elapsed_us);
            latency.write_p99_us.is_some_and(|p99| p99 > most)
        };
        if waits(default, theirs) || waits(best, ours) {
            self.lab_keeps_up = false;
            self.notes.push(
                "the simulated drive cannot keep up with the trace's times, so latencies are \
                 those of a queue that grows, and are left out"
                    .to_owned(),
            );
        }
    }

    /// The share of the best choice's writes that knowledge of the future would save besides.
    pub fn room_left(&self) -> Option<f64> {
        let future = self.future.as_ref()?;
        Some(1.0 - future.waf.mean / self.best.waf.mean.min(self.default.waf.mean))
    }
}

impl Latency {
    fn of(point: &PointResult) -> Option<Latency> {
        let number = |name: &str| point.numbers.get(name).map(|number| number.mean);
        Some(Latency {
            waf_data: *point.numbers.get("waf_data")?,
            waf: number("waf")?,
            write_p50_us: number("write_p50_us"),
            write_p99_us: number("write_p99_us"),
            write_p99_9_us: number("write_p99_9_us"),
            read_p99_us: number("read_p99_us"),
            read_p99_9_us: number("read_p99_9_us"),
        })
    }
}

/// What one choice saves over another.
struct Win {
    /// The share of writes saved, paired by seed.
    win: Estimate,
    /// Half of how far apart that is in both halves of what was counted.
    halves_spread: f64,
    /// What the win must exceed.
    spread: f64,
}

impl Win {
    /// By the number of that name, and those of both halves.
    fn of(
        ours: Option<&PointResult>,
        theirs: Option<&PointResult>,
        [whole, first, second]: [&str; 3],
    ) -> Win {
        let pairs = |number: &str| -> Vec<f64> {
            let (Some(ours), Some(theirs)) = (ours, theirs) else { return Vec::new() };
            let pairs = ours.runs.iter().filter_map(|a| {
                let b = theirs.runs.iter().find(|b| b.seed == a.seed)?; // Either may have failed.
                Some(1.0 - a.outcome.numbers.get(number)? / b.outcome.numbers.get(number)?)
            });
            pairs.filter(|win| win.is_finite()).collect()
        };
        let mean = |wins: &[f64]| wins.iter().sum::<f64>() / wins.len().max(1) as f64;
        let wins = pairs(whole);
        let win = match wins.is_empty() {
            true => Estimate { mean: 0.0, ci95: None, runs: 0 },
            false => Estimate::of(&wins),
        };
        let halves_spread = (mean(&pairs(first)) - mean(&pairs(second))).abs() / 2.0;
        // Nothing tells how far a single one may be off.
        let interval = win.ci95.unwrap_or(win.mean.abs());
        Win { win, halves_spread, spread: halves_spread.max(interval) }
    }
}

/// The grid, by spare factor.
fn spares(grid: &Results) -> Vec<AtSpare> {
    let found: Vec<_> = grid.points.iter().filter_map(placed).collect();
    let mut spares: Vec<f64> = found.iter().map(|(spare, ..)| *spare).collect();
    spares.sort_by(f64::total_cmp);
    spares.dedup();
    let at = |spare: f64| {
        let there = || found.iter().filter(move |(at, ..)| *at == spare);
        let least = |future: bool| {
            let fits = there().filter(move |(_, choice, _)| choice.knows_future() == future);
            fits.min_by(|a, b| a.2.total_cmp(&b.2))
        };
        let (_, best, best_waf) = least(false)?;
        Some(AtSpare {
            spare,
            default_waf: there().find(|(_, c, _)| *c == Choice::default()).map(|found| found.2),
            best: best.clone(),
            best_waf: *best_waf,
            future_waf: least(true).map(|found| found.2),
        })
    };
    spares.into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn point(runs: &[(u64, f64)]) -> PointResult {
        let run = |(seed, waf): &(u64, f64)| -> Value {
            json!({ "seed": seed, "numbers": { "waf": waf }, "series": {}, "notes": [] })
        };
        let runs: Vec<Value> = runs.iter().map(run).collect();
        let value = json!({
            "case": "c", "kind": "k", "coordinates": {}, "configuration": {}, "numbers": {},
            "runs": runs,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn wins_are_of_the_same_seed_though_others_failed() {
        let ours = point(&[(1, 1.0), (3, 3.0), (4, 4.0)]);
        let theirs = point(&[(1, 2.0), (2, 40.0), (3, 6.0), (4, 8.0)]);
        let won = Win::of(Some(&ours), Some(&theirs), ["waf", "first", "second"]);
        assert_eq!((won.win.mean, won.win.ci95, won.win.runs), (0.5, Some(0.0), 3));
        assert!(won.win.mean > won.spread);
        let won = Win::of(Some(&point(&[(4, 4.0)])), Some(&theirs), ["waf", "first", "second"]);
        assert!(won.win.runs == 1 && won.win.mean <= won.spread, "one run proves nothing");
    }
}
