//! How far an experiment is: a bar on a terminal, else a line now and then.

#![allow(clippy::disallowed_methods)] // The outside world: who waits has a clock.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mjolnir_experiment::Event;

use crate::complaints::complain;
use crate::output;

/// Steps of a bar.
const STEPS: u64 = 1000;
/// How often a line is written where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// See the module.
pub struct Progress {
    name: String,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    begun: Instant,
    told: Instant,
    /// The share that was done when it began.
    kept: f64,
}

impl Progress {
    /// For an experiment.
    pub fn new(name: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{prefix} {bar:40} {percent:>3} %, {eta} left");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(STEPS).with_style(style).with_prefix(name.to_owned())
        });
        let now = Instant::now();
        let state = State { begun: now, told: now, kept: 0.0 };
        Progress { name: name.to_owned(), bar, state: Mutex::new(state) }
    }

    /// Takes note of what happens.
    pub fn watch(&self, event: Event<'_>) {
        match event {
            Event::Begun { runs, kept } => {
                let share = if runs == 0 { 0.0 } else { kept as f64 / runs as f64 };
                self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).kept = share;
                let already = match kept {
                    0 => String::new(),
                    kept => format!(", {kept} of them are there already"),
                };
                self.say(&format!("{}: {}{already}", self.name, output::count(runs as u64, "run")));
            }
            Event::Progress(share) => self.show(share),
            Event::Failed(failed) => self.say(&format!("{}: failed: {failed}", self.name)),
            Event::Done(_) => {}
        }
    }

    fn show(&self, share: f64) {
        if let Some(bar) = &self.bar {
            return bar.set_position(((share * STEPS as f64) as u64).min(STEPS));
        }
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        if now - state.told < LINE_PERIOD {
            return;
        }
        state.told = now;
        let (took, done) = ((now - state.begun).as_secs_f64(), share - state.kept);
        let left = match done > 0.0 {
            true => {
                let left_s = (took / done * (1.0 - share)).ceil().max(1.0);
                format!(", about {} left", whole(left_s as u64))
            }
            false => String::new(),
        };
        complain(&format!("{}: {} done{left}", self.name, output::percent(share)));
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| complain(text)),
            None => complain(text),
        }
    }

    /// Leaves nothing of it on the terminal; says how long it took.
    pub fn end(&self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).begun.elapsed()
    }
}

/// Seconds, as precise as a guess is.
fn whole(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}
