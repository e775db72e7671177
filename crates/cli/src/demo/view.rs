//! How the demo shows itself: panels in place on a terminal, or a plain line a second.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use super::panels::{self, ROWS};
use super::sample::{Sample, grouped, mib};

/// Rows around the panels: a head above, news below, and the line that the cursor rests on.
const OTHER_ROWS: usize = 3;
/// Narrower terminals get plain lines.
const COLUMNS_MIN: usize = 40;

/// The demo's face. What cannot be printed (a closed pipe) is let go.
pub struct View {
    face: Face,
}

enum Face {
    Panels(Box<Live>),
    Lines,
    Silent,
}

struct Live {
    head: String,
    span: Duration,
    samples: Vec<Sample>,
    news: String,
    /// Rows drawn last, to be drawn over.
    drawn: usize,
    coloured: bool,
}

impl View {
    /// Panels if standard output is a terminal that is large enough and `plain` is not asked for.
    /// `head` is shown above; `span` is how long the load will take.
    pub fn new(plain: bool, head: String, span: Duration) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let (columns, rows) = size().unwrap_or((0, 0));
        let large = columns >= COLUMNS_MIN && rows >= ROWS + OTHER_ROWS;
        if plain || dumb || !large {
            say(&head);
            return View { face: Face::Lines };
        }
        let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (samples, news) = (Vec::new(), String::new());
        let live = Live { head, span, samples, news, drawn: 0, coloured };
        View { face: Face::Panels(Box::new(live)) }
    }

    /// Shows nothing.
    pub fn silent() -> Self {
        View { face: Face::Silent }
    }

    /// How often a sample is wanted.
    pub fn interval(&self) -> Duration {
        match self.face {
            Face::Panels(_) => Duration::from_millis(250),
            Face::Lines | Face::Silent => Duration::from_secs(1),
        }
    }

    /// Shows a sample.
    pub fn sample(&mut self, sample: Sample) {
        match &mut self.face {
            Face::Panels(live) => {
                live.samples.push(sample);
                live.draw();
            }
            Face::Lines => say(&line(&sample)),
            Face::Silent => {}
        }
    }

    /// Tells what happened.
    pub fn tell(&mut self, news: String) {
        match &mut self.face {
            Face::Panels(live) => {
                live.news = news;
                live.draw();
            }
            Face::Lines => say(&news),
            Face::Silent => {}
        }
    }
}

impl Live {
    fn draw(&mut self) {
        let (columns, rows) = size().unwrap_or((COLUMNS_MIN, 0));
        // A line that fills the last column may wrap.
        let width = columns.saturating_sub(1);
        let cut = |text: &str| text.chars().take(width).collect::<String>();
        let mut lines = vec![cut(&self.head)];
        if rows >= ROWS + OTHER_ROWS {
            lines.extend(panels::draw(&self.samples, self.span, width, self.coloured));
        }
        lines.push(cut(&self.news));
        let mut frame = String::new();
        if self.drawn > 0 {
            frame += &format!("\x1b[{}A", self.drawn);
        }
        for line in &lines {
            frame += &format!("\r{line}\x1b[K\n");
        }
        frame += "\x1b[J";
        self.drawn = lines.len();
        let mut out = stdout().lock();
        let _ = out.write_all(frame.as_bytes()).and_then(|()| out.flush());
    }
}

/// Columns and rows of the terminal, if there is one.
fn size() -> Option<(usize, usize)> {
    let out = stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(&out).ok()).flatten()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Prints a line.
pub fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

/// The six panels as a line.
fn line(sample: &Sample) -> String {
    format!(
        "{:3.0} s: clients wrote {} and read {} MiB/s; device wrote {} and read {} MiB/s; \
         utilization {:.0} %; reclaim's share {:.0} %, {} blocks/s moved; \
         segments/s {:.1} allocated, {:.1} reclaimed",
        sample.at.as_secs_f64(),
        mib(sample.client_write),
        mib(sample.client_read),
        mib(sample.device_write),
        mib(sample.device_read),
        sample.utilization * 100.0,
        sample.reclaim_share * 100.0,
        grouped(sample.moved as u64),
        sample.allocated,
        sample.reclaimed,
    )
}
