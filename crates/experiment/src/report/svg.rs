//! Draws a figure as SVG: marks, lines, bars, axes and a key. The same drawing stands in the report
//! and in a file of its own.

use std::fmt::Write;

use super::axis::Axis;
use super::chart::{Chart, Line, Look};
use super::label::{escape, number};

const WIDTH: f64 = 760.0;
const PLOT_HEIGHT: f64 = 320.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 14.0;
/// What a line of text takes.
const LINE: f64 = 17.0;
/// What a letter takes, about.
const LETTER: f64 = 6.6;
/// The same of an axis' label, which is larger.
const LABEL_LETTER: f64 = 7.2;
/// Colours that there are; beyond them, lines are dashed.
const COLOURS: usize = 8;

/// Where the plot is.
struct Frame<'a> {
    chart: &'a Chart,
    x: Axis,
    y: Axis,
}

impl Frame<'_> {
    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
    }

    fn py_of(&self, place: f64) -> f64 {
        TOP + (1.0 - place) * PLOT_HEIGHT
    }

    fn py(&self, y: f64) -> f64 {
        self.py_of(self.y.place(y).clamp(-0.02, 1.02))
    }
}

/// The drawing, with axes as asked. `id` must be another for each drawing of a page.
pub fn draw(chart: &Chart, x_log: bool, y_log: bool, id: &str) -> String {
    let marks = || chart.series.iter().flat_map(|line| &line.points);
    let x = match &chart.categories {
        Some(categories) => Axis::of_places(categories.len()),
        None => Axis::new(marks().map(|mark| mark.x), x_log, false),
    };
    let ys = marks().flat_map(|mark| {
        let half = mark.ci95.unwrap_or(0.0);
        [mark.y - half, mark.y, mark.y + half]
    });
    let frame = Frame { chart, x, y: Axis::new(ys, y_log, chart.bars) };
    let (below, label_lines) = frame.x_axis();
    let axis_bottom = TOP + PLOT_HEIGHT + LINE * label_lines as f64 + 8.0;
    let (key, key_height) = frame.key(axis_bottom + 26.0);
    let height = axis_bottom + 26.0 + key_height;
    let id = escape(id);
    let mut svg = format!(
        "<svg class=\"figure\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         role=\"img\" aria-labelledby=\"{id}-title\">\n<title id=\"{id}-title\">{}</title>\n",
        escape(&chart.title)
    );
    frame.y_axis(&mut svg);
    svg += &below;
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let (x_label, y_label) = (escape(&chart.x_label), escape(&chart.y_label));
    let _ = writeln!(
        svg,
        "<text class=\"label\" x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{x_label}</text>",
        axis_bottom + 12.0
    );
    let centre = TOP + PLOT_HEIGHT / 2.0;
    // A long one is pressed into what there is.
    let room = 2.0 * centre - 4.0;
    let pressed = match chart.y_label.chars().count() as f64 * LABEL_LETTER > room {
        true => format!(" textLength=\"{room:.0}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    };
    let _ = writeln!(
        svg,
        "<text class=\"label\" transform=\"translate(15 {centre:.0}) rotate(-90)\" \
         text-anchor=\"middle\"{pressed}>{y_label}</text>"
    );
    let bars: Vec<usize> = (0..chart.series.len()).filter(|&s| frame.is_bar(s)).collect();
    for (index, line) in chart.series.iter().enumerate() {
        frame.series(&mut svg, index, line, &bars);
    }
    svg += &key;
    svg += "</svg>\n";
    svg
}

impl Frame<'_> {
    fn y_axis(&self, svg: &mut String) {
        let (left, right) = (LEFT, WIDTH - RIGHT);
        for &tick in &self.y.ticks {
            let y = self.py_of(self.y.place(tick));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/><text class=\"tick\" x=\"{:.0}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 4.0,
                self.y.tick_label(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left} {TOP}V{:.1}H{right}\"/>",
            TOP + PLOT_HEIGHT
        );
    }

    /// Ticks or words along the x axis, and how many lines of text they take.
    fn x_axis(&self) -> (String, usize) {
        let mut svg = String::new();
        let bottom = TOP + PLOT_HEIGHT;
        let Some(categories) = &self.chart.categories else {
            for &tick in &self.x.ticks {
                let (x, label) = (self.px(tick), self.x.tick_label(tick));
                // The last one must not reach beyond the edge.
                let half = label.chars().count() as f64 * LETTER / 2.0;
                let (at, anchor) = match x + half > WIDTH {
                    true => (WIDTH, "end"),
                    false => (x, "middle"),
                };
                let _ = writeln!(
                    svg,
                    "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/><text class=\"tick\" \
                     x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
                    bottom + LINE
                );
            }
            return (svg, 1);
        };
        let width = (WIDTH - LEFT - RIGHT) / categories.len().max(1) as f64;
        let letters = (width / LETTER - 1.5).floor().max(4.0) as usize;
        let mut lines_max = 1;
        for (index, word) in categories.iter().enumerate() {
            let lines = wrapped(word, letters);
            lines_max = lines_max.max(lines.len());
            let x = self.px(index as f64);
            for (number, line) in lines.iter().enumerate() {
                let _ = writeln!(
                    svg,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + LINE * (number + 1) as f64,
                    escape(line)
                );
            }
        }
        (svg, lines_max)
    }

    fn is_bar(&self, series: usize) -> bool {
        self.chart.bars && self.chart.series[series].look != Look::Published
    }

    /// Where a mark is drawn: bars stand side by side, and published values over their bar.
    fn shifted(&self, index: usize, x: f64, bars: &[usize]) -> (f64, f64) {
        if !self.chart.bars {
            return (self.px(x), 0.0);
        }
        let place = (self.px(1.0) - self.px(0.0)).abs();
        let width = (place * 0.76 / bars.len().max(1) as f64).min(64.0);
        let name =
            self.chart.series[index].name.trim_end_matches("published").trim_end_matches(", ");
        let own = bars.iter().position(|&bar| bar == index);
        let own = own.or_else(|| bars.iter().position(|&bar| self.chart.series[bar].name == name));
        let number = own.unwrap_or(0) as f64;
        let shift = (number - (bars.len() as f64 - 1.0) / 2.0) * width;
        (self.px(x) + shift, width)
    }

    fn series(&self, svg: &mut String, index: usize, line: &Line, bars: &[usize]) {
        let dashed = if line.colour >= COLOURS { " dashed" } else { "" };
        let colour = line.colour % COLOURS;
        // What the script needs to tell values under the pointer.
        let mut data = String::new();
        let mut places = Vec::new();
        for mark in &line.points {
            let (x, width) = self.shifted(index, mark.x, bars);
            let y = self.py(mark.y);
            let shown_x = match &self.chart.categories {
                Some(categories) => {
                    escape(categories.get(mark.x as usize).map_or("", String::as_str))
                        .replace(['|', ';'], " ")
                }
                None => number(mark.x),
            };
            let ci = mark.ci95.map(|half| format!(" ± {}", number(half))).unwrap_or_default();
            let _ = write!(data, "{x:.1}|{y:.1}|{shown_x}|{}{ci};", number(mark.y));
            places.push((x, y, width, mark));
        }
        let _ = writeln!(
            svg,
            "<g class=\"series c{colour}{dashed}\" data-series=\"{index}\" data-name=\"{}\" \
             data-points=\"{data}\">",
            escape(&line.name)
        );
        for (x, _, _, mark) in &places {
            if let Some(half) = mark.ci95.filter(|half| *half > 0.0) {
                let (low, high) = (self.py(mark.y - half), self.py(mark.y + half));
                let _ = writeln!(
                    svg,
                    "<path class=\"error\" d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\"/>",
                    x - 4.0,
                    x - 4.0
                );
            }
        }
        if self.is_bar(index) {
            let base = self.py_of(self.y.base());
            for (x, y, width, _) in &places {
                let (top, tall) = (y.min(base), (y - base).abs());
                let _ = writeln!(
                    svg,
                    "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"/>",
                    x - width / 2.0 + 1.0,
                    (width - 2.0).max(1.0)
                );
            }
            *svg += "</g>\n";
            return;
        }
        if matches!(line.look, Look::Joined | Look::Line) && places.len() > 1 {
            let path: Vec<String> =
                places.iter().map(|(x, y, ..)| format!("{x:.1} {y:.1}")).collect();
            let _ = writeln!(svg, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
        }
        if line.look != Look::Line || places.len() == 1 {
            let hollow = if line.look == Look::Published { " hollow" } else { "" };
            for (x, y, ..) in &places {
                let _ =
                    writeln!(svg, "<path class=\"mark{hollow}\" d=\"{}\"/>", shape(line, *x, *y));
            }
        }
        *svg += "</g>\n";
    }

    /// The key, from `top` down, and its height: an entry for each group of series, and one for
    /// published values.
    fn key(&self, top: f64) -> (String, f64) {
        let all = &self.chart.series;
        let mut entries: Vec<(&Line, Vec<usize>, String)> = Vec::new();
        for (index, line) in all.iter().enumerate() {
            match entries.iter_mut().find(|(first, ..)| first.colour == line.colour) {
                Some((_, indexes, _)) => indexes.push(index),
                None => {
                    let name = if line.group.is_empty() { "measured" } else { &line.group };
                    entries.push((line, vec![index], name.to_owned()));
                }
            }
        }
        let published = all.iter().find(|line| line.look == Look::Published);
        if entries.len() == 1 && published.is_none() {
            return (String::new(), 4.0);
        }
        let mut svg = String::new();
        let (mut x, mut y) = (LEFT, top + 6.0);
        let mut place = |letters: usize| {
            let width = 34.0 + letters as f64 * LETTER + 14.0;
            if x + width > WIDTH - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LINE + 3.0);
            }
            let found = (x, y);
            x += width;
            found
        };
        for (line, indexes, name) in &entries {
            let (x, y) = place(name.chars().count());
            let dashed = if line.colour >= COLOURS { " dashed" } else { "" };
            let colour = line.colour % COLOURS;
            let (middle, centre) = (x + 13.0, y - 4.0);
            let mut sign = String::new();
            let has =
                |looks: &[Look]| indexes.iter().any(|&index| looks.contains(&all[index].look));
            if self.is_bar(indexes[0]) {
                let (left, top) = (middle - 7.0, centre - 5.0);
                let place = format!("x=\"{left:.1}\" y=\"{top:.1}\"");
                let _ = write!(sign, "<rect class=\"bar\" {place} width=\"14\" height=\"10\"/>");
            } else {
                if has(&[Look::Joined, Look::Line]) {
                    let _ = write!(sign, "<path class=\"line\" d=\"M{x:.1} {centre:.1}h26\"/>");
                }
                if has(&[Look::Joined, Look::Marks]) {
                    let shape = shape(line, middle, centre);
                    let _ = write!(sign, "<path class=\"mark\" d=\"{shape}\"/>");
                }
            }
            let keys: Vec<String> = indexes.iter().map(usize::to_string).collect();
            let _ = writeln!(
                svg,
                "<g class=\"key c{colour}{dashed}\" data-key=\"{}\">{sign}<text x=\"{:.1}\" \
                 y=\"{y:.1}\">{}</text></g>",
                keys.join(" "),
                x + 33.0,
                escape(name)
            );
        }
        if let Some(line) = published {
            let (x, y) = place("published".len());
            let shape = shape(line, x + 13.0, y - 4.0);
            let _ = writeln!(
                svg,
                "<g class=\"c6\"><path class=\"mark hollow\" d=\"{shape}\"/><text x=\"{:.1}\" \
                 y=\"{y:.1}\">published</text></g>",
                x + 33.0
            );
        }
        (svg, y - top + 12.0)
    }
}

/// A mark's outline: shapes tell series apart where colours do not.
fn shape(line: &Line, x: f64, y: f64) -> String {
    if line.look == Look::Published {
        return format!("M{:.1} {y:.1}l6 -6l6 6l-6 6z", x - 6.0);
    }
    match line.colour % 4 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{:.1} {:.1}l4.5 8h-9z", x, y - 5.0),
        _ => format!("M{:.1} {:.1}h3v-3h3v3h3v3h-3v3h-3v-3h-3z", x - 4.5, y - 1.5),
    }
}

/// Text in lines of at most so many letters, broken between words and after hyphens; at most four.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        for (number, part) in word.split_inclusive('-').enumerate() {
            let space = if number == 0 { " " } else { "" };
            let length = |line: &String| line.chars().count() + space.len() + part.chars().count();
            match lines.last_mut() {
                Some(line) if length(line) <= letters => *line += &format!("{space}{part}"),
                _ => lines.push(part.to_owned()),
            }
        }
    }
    if lines.len() > 4 {
        lines.truncate(4);
        lines[3].push('…');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::Mark;

    fn chart(categories: Option<Vec<String>>) -> Chart {
        let mark = |x, y, ci95| Mark { x, y, ci95 };
        let line = |name: &str, look, points| {
            let name = name.to_owned();
            Line { group: "a".to_owned(), name, colour: 0, look, points }
        };
        Chart {
            title: "A & B".to_owned(),
            caption: None,
            x_label: "x".to_owned(),
            y_label: "y (µs)".to_owned(),
            x_log: false,
            y_log: false,
            bars: categories.is_some(),
            categories,
            series: vec![
                line("a", Look::Joined, vec![mark(0.0, 1.0, Some(0.5)), mark(1.0, 2.0, None)]),
                line("a, published", Look::Published, vec![mark(1.0, 2.5, None)]),
            ],
        }
    }

    #[test]
    fn every_point_is_drawn() {
        let svg = draw(&chart(None), false, false, "f");
        assert_eq!(svg.matches("class=\"mark\"").count(), 3, "two points and the key: {svg}");
        assert_eq!(svg.matches("class=\"mark hollow\"").count(), 2);
        assert_eq!(svg.matches("class=\"error\"").count(), 1);
        assert!(svg.contains("A &amp; B") && !svg.contains("NaN"), "{svg}");
        let svg = draw(&chart(Some(vec!["one".into(), "two words".into()])), false, true, "f");
        assert_eq!(svg.matches("<rect class=\"bar\"").count(), 3);
    }

    #[test]
    fn nothing_reaches_beyond_the_edge() {
        let mut chart = chart(None);
        assert!(!draw(&chart, false, false, "f").contains("textLength"));
        chart.y_label = "processor time of scans, ms a GiB that clients write".to_owned();
        assert!(draw(&chart, false, false, "f").contains("textLength=\"344\""));
        chart.series[0].points[1].x = 40_000.0;
        let svg = draw(&chart, false, false, "f");
        assert!(svg.contains("x=\"760.0\" y=\"351.0\" text-anchor=\"end\">40,000</text>"), "{svg}");
    }

    #[test]
    fn long_words_are_wrapped() {
        assert_eq!(wrapped("250,000 sequential reads", 12), ["250,000", "sequential", "reads"]);
        assert_eq!(wrapped("windowed-greedy", 12), ["windowed-", "greedy"]);
        assert_eq!(wrapped("windowed-greedy", 15), ["windowed-greedy"]);
        assert_eq!(wrapped("a b c d e f", 1).len(), 4);
    }
}
