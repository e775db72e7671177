//! The six panels of the paper's Figure 2 (Mjölnir, INFLOW'15, section 5.1), drawn in place with
//! block characters: client and device I/O, utilization, bandwidth share, blocks moved, segments
//! allocated and reclaimed, all over one axis of time.

use std::time::Duration;

use super::sample::{Sample, grouped, mib};

/// Rows that the six panels take.
pub const ROWS: usize = 18;
/// Columns left of the curves.
const MARGIN: usize = 2;

/// Colours of curves, by what they show.
#[derive(Clone, Copy)]
enum Colour {
    Write,
    Read,
    Level,
    Reclaim,
}

impl Colour {
    fn paint(self, text: &str, coloured: bool) -> String {
        let code = match self {
            Colour::Write => 34,
            Colour::Read => 32,
            Colour::Level => 36,
            Colour::Reclaim => 33,
        };
        if coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One curve: a colour, and where its values come from.
type Curve = (Colour, fn(&Sample) -> f64);

struct Panel {
    title: &'static str,
    /// One curve of two rows, or two curves of one row each, on one scale.
    curves: &'static [Curve],
    /// The value at the top; the highest value so far if `None`.
    top: Option<f64>,
    /// The present values in words.
    now: fn(&Sample) -> String,
}

const PANELS: [Panel; 6] = [
    Panel {
        title: "Client I/O",
        curves: &[(Colour::Write, |s| s.client_write), (Colour::Read, |s| s.client_read)],
        top: None,
        now: |s| {
            format!("written {} MiB/s, read {} MiB/s", mib(s.client_write), mib(s.client_read))
        },
    },
    Panel {
        title: "Device I/O",
        curves: &[(Colour::Write, |s| s.device_write), (Colour::Read, |s| s.device_read)],
        top: None,
        now: |s| {
            format!("written {} MiB/s, read {} MiB/s", mib(s.device_write), mib(s.device_read))
        },
    },
    Panel {
        title: "Utilization",
        curves: &[(Colour::Level, |s| s.utilization)],
        top: Some(1.0),
        now: |s| format!("{:.0} % of segments in use", s.utilization * 100.0),
    },
    Panel {
        title: "Bandwidth share",
        curves: &[
            (Colour::Write, |s| 1.0 - s.reclaim_share),
            (Colour::Reclaim, |s| s.reclaim_share),
        ],
        top: Some(1.0),
        now: |s| {
            let reclaim = (s.reclaim_share * 100.0).round();
            format!("clients {:.0} %, reclaim {reclaim:.0} %", 100.0 - reclaim)
        },
    },
    Panel {
        title: "Blocks moved",
        curves: &[(Colour::Reclaim, |s| s.moved)],
        top: None,
        now: |s| format!("{} a second", grouped(s.moved as u64)),
    },
    Panel {
        title: "Segments",
        curves: &[(Colour::Write, |s| s.allocated), (Colour::Reclaim, |s| s.reclaimed)],
        top: None,
        now: |s| format!("allocated {:.1}, reclaimed {:.1} a second", s.allocated, s.reclaimed),
    },
];

/// Draws all panels, [`ROWS`] rows of at most `width` columns, over an axis of time of `span`.
pub fn draw(samples: &[Sample], span: Duration, width: usize, coloured: bool) -> Vec<String> {
    let now = samples.last().copied().unwrap_or_default();
    let mut rows = Vec::new();
    for panel in &PANELS {
        let title = format!("{:<16}  {}", panel.title, (panel.now)(&now));
        rows.push(title.chars().take(width).collect());
        let columns: Vec<Vec<Option<f64>>> = panel
            .curves
            .iter()
            .map(|(_, value)| columns(samples, span, width.saturating_sub(MARGIN), *value))
            .collect();
        let highest = columns.iter().flatten().flatten().fold(0.0, |a: f64, b| a.max(*b));
        let top = panel.top.unwrap_or(highest);
        let height = 2 / panel.curves.len();
        for ((colour, _), columns) in panel.curves.iter().zip(&columns) {
            for row in bars(columns, top, height) {
                let margin = " ".repeat(MARGIN.min(width));
                rows.push(format!("{margin}{}", colour.paint(&row, coloured)));
            }
        }
    }
    debug_assert_eq!(rows.len(), ROWS);
    rows
}

/// The mean value in each of `width` columns of time; `None` where time has not come yet.
fn columns(
    samples: &[Sample],
    span: Duration,
    width: usize,
    value: fn(&Sample) -> f64,
) -> Vec<Option<f64>> {
    let last = samples.last().map_or(Duration::ZERO, |sample| sample.at);
    let span = span.max(last).as_secs_f64().max(1e-9);
    let column = |at: Duration| {
        // A sample tells of the time before it.
        ((at.as_secs_f64() / span * width as f64).ceil() as usize).saturating_sub(1)
    };
    let mut sums = vec![(0.0, 0u32); width];
    for sample in samples {
        if let Some((sum, count)) = sums.get_mut(column(sample.at)) {
            *sum += value(sample);
            *count += 1;
        }
    }
    // Columns without a sample of their own lie inside the time of the next one.
    let mut next = None;
    let mut means = vec![None; width];
    for (mean, (sum, count)) in means.iter_mut().zip(&sums).rev() {
        if *count > 0 {
            next = Some(sum / f64::from(*count));
        }
        *mean = next;
    }
    means
}

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bars `height` rows high, the upper row first; a bar of `top` fills them.
fn bars(columns: &[Option<f64>], top: f64, height: usize) -> Vec<String> {
    let eighths = |value: f64| {
        let part = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
        (part * (8 * height) as f64).round() as usize
    };
    let row = |row: usize| {
        let below = (height - 1 - row) * 8;
        let cell = |value: &Option<f64>| match value {
            Some(value) => EIGHTHS[eighths(*value).saturating_sub(below).min(8)],
            None => ' ',
        };
        columns.iter().map(cell).collect()
    };
    (0..height).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, moved: f64) -> Sample {
        Sample { at: Duration::from_secs(seconds), moved, ..Sample::default() }
    }

    #[test]
    fn time_goes_from_left_to_right_and_the_future_is_blank() {
        let samples = [sample(1, 2.0), sample(2, 4.0)];
        let values = columns(&samples, Duration::from_secs(4), 4, |s| s.moved);
        assert_eq!(values, [Some(2.0), Some(4.0), None, None]);
        let wide = columns(&samples, Duration::from_secs(4), 8, |s| s.moved);
        assert_eq!(wide[..4], [Some(2.0), Some(2.0), Some(4.0), Some(4.0)]);
        let narrow = columns(&samples, Duration::from_secs(2), 1, |s| s.moved);
        assert_eq!(narrow, [Some(3.0)]);
    }

    #[test]
    fn time_that_passes_the_planned_end_still_fits() {
        let samples = [sample(1, 1.0), sample(6, 2.0)];
        let values = columns(&samples, Duration::from_secs(3), 6, |s| s.moved);
        assert_eq!((values[0], values[5]), (Some(1.0), Some(2.0)));
    }

    #[test]
    fn bars_reach_over_their_rows() {
        let values = [Some(0.0), Some(0.5), Some(1.0), None];
        assert_eq!(bars(&values, 1.0, 1), [" ▄█ "]);
        assert_eq!(bars(&values, 1.0, 2), ["  █ ", " ██ "]);
        assert_eq!(bars(&values, 0.0, 1), ["    "]);
    }

    #[test]
    fn all_rows_fit_the_width_with_and_without_samples() {
        for samples in [&[][..], &[sample(1, 1e9), sample(2, 3.0)]] {
            for width in [0, 1, 30, 200] {
                let rows = draw(samples, Duration::from_secs(9), width, false);
                assert_eq!(rows.len(), ROWS);
                assert!(rows.iter().all(|row| row.chars().count() <= width), "{width}: {rows:?}");
            }
        }
    }
}
