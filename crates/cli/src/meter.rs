//! How far a long command is: a bar on a terminal, else a line now and then.

use std::cell::{Cell, OnceCell};
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mjolnir_device::Runtime;
use mjolnir_host::HostRuntime;
use mjolnir_units::Instant;

use crate::complaints::complain;
use crate::output;

/// Steps of a bar.
const STEPS: u64 = 1000;
/// How often a line is written where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// See the module. Silent where the output is for programs.
pub struct Meter {
    runtime: HostRuntime,
    silent: bool,
    bar: OnceCell<ProgressBar>,
    told: Cell<Instant>,
}

impl Meter {
    /// A meter that shows nothing yet.
    pub fn new(silent: bool, runtime: &HostRuntime) -> Self {
        let told = Cell::new(runtime.now());
        Meter { runtime: runtime.clone(), silent, bar: OnceCell::new(), told }
    }

    /// Shows the part done, 0 to 1.
    pub fn show(&self, part: f64) {
        if self.silent {
            return;
        }
        if io::stderr().is_terminal() {
            let step = (part * STEPS as f64) as u64;
            return self.bar.get_or_init(bar).set_position(step.min(STEPS));
        }
        let now = self.runtime.now();
        if now.since(self.told.get()) >= LINE_PERIOD {
            self.told.set(now);
            complain(&format!("{} done", output::percent(part)));
        }
    }

    /// Leaves nothing of it on the terminal.
    pub fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %, {eta} left");
    ProgressBar::new(STEPS).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
