//! What a figure shows: series of points, taken out of results.

use std::collections::BTreeMap;

use mjolnir_units::ByteSize;

use super::label;
use crate::file::{Figure, Style};
use crate::results::{PointResult, Results};
use crate::sweep::{Coordinate, matches};

/// A course with more points than this is thinned, keeping lows and highs.
const POINTS_MAX: usize = 600;

/// A figure, ready to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub caption: Option<String>,
    pub x_label: String,
    pub y_label: String,
    pub x_log: bool,
    pub y_log: bool,
    /// Words along the x axis, if it has no numbers; x values are then their indexes.
    pub categories: Option<Vec<String>>,
    pub bars: bool,
    pub series: Vec<Line>,
}

/// One series of a figure.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// What the key calls it; series of the same group have the same colour.
    pub group: String,
    pub colour: usize,
    pub look: Look,
    pub points: Vec<Mark>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Marks joined by a line.
    Joined,
    /// A line alone.
    Line,
    /// Marks alone.
    Marks,
    /// Published values: hollow marks.
    Published,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    pub ci95: Option<f64>,
}

/// Something measured over time, by whoever measures.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// What it is.
    pub title: &'a str,
    /// What the x axis says, with its unit.
    pub x_label: &'a str,
    /// What the y axis says, with its unit.
    pub y_label: &'a str,
    /// In the order of their x.
    pub points: &'a [(f64, f64)],
}

/// Why a figure shows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nothing {
    /// In a sentence.
    pub why: String,
    /// Whether runs never record what it asks for; else this run has other points than it shows,
    /// which a quick run may.
    pub never: bool,
}

impl Chart {
    /// Takes a figure out of results.
    ///
    /// # Errors
    ///
    /// What it should show is not there.
    pub fn new(results: &Results, figure: &Figure) -> Result<Chart, Nothing> {
        let points: Vec<&PointResult> = results
            .points
            .iter()
            .filter(|point| !point.runs.is_empty())
            .filter(|point| matches(&figure.only, point.case.as_deref(), &point.coordinates))
            .collect();
        let name = &figure.name;
        if points.is_empty() {
            let why = format!("figure {name} shows nothing: this run has none of its points");
            return Err(Nothing { why, never: false });
        }
        let keys = figure.series.clone().unwrap_or_else(|| varying(results, &points, &figure.x));
        let mut chart = Chart {
            title: figure.title.clone(),
            caption: figure.caption.clone(),
            x_label: figure.x_label.clone().unwrap_or_else(|| label::words(&last(&figure.x))),
            y_label: figure.y_label.clone().unwrap_or_else(|| names(&figure.y)),
            x_log: figure.x_log,
            y_log: figure.y_log,
            categories: None,
            bars: false,
            series: Vec::new(),
        };
        match &figure.course {
            Some(course) => {
                for course in [course].into_iter().chain(&figure.besides) {
                    chart.courses(course, &points, &keys, figure);
                }
            }
            None => chart.numbers(results, &points, &keys, figure),
        }
        if chart.series.iter().all(|line| line.points.is_empty()) {
            let known = match &figure.course {
                Some(_) => {
                    let runs = points.iter().flat_map(|point| &point.runs);
                    let mut known: Vec<&str> = runs
                        .flat_map(|run| run.outcome.series.keys())
                        .map(String::as_str)
                        .collect();
                    known.sort_unstable();
                    known.dedup();
                    known
                }
                None => results.number_names().into_iter().collect(),
            };
            let why = format!(
                "figure {name} shows nothing: runs have no {}; they have {}",
                figure.course.clone().unwrap_or_else(|| format!(
                    "{} of {}",
                    figure.y.join(", "),
                    figure.x
                )),
                known.join(", ")
            );
            return Err(Nothing { why, never: true });
        }
        Ok(chart)
    }

    /// A single course, thinned if it is long.
    pub fn of_course(course: &Course<'_>) -> Chart {
        let marks = thinned(course.points).into_iter().map(|(x, y)| Mark { x, y, ci95: None });
        Chart {
            title: course.title.to_owned(),
            caption: None,
            x_label: course.x_label.to_owned(),
            y_label: course.y_label.to_owned(),
            x_log: false,
            y_log: false,
            categories: None,
            bars: false,
            series: vec![Line {
                name: String::new(),
                group: String::new(),
                colour: 0,
                look: Look::Line,
                points: marks.collect(),
            }],
        }
    }

    fn courses(&mut self, course: &str, points: &[&PointResult], keys: &[String], figure: &Figure) {
        for point in points {
            let Some(series) = point.runs.iter().find_map(|run| run.outcome.series.get(course))
            else {
                continue;
            };
            if figure.x_label.is_none() {
                self.x_label = label::words(&series.x);
            }
            if figure.y_label.is_none() {
                self.y_label = label::words(&series.y);
            }
            let look = match figure.style {
                Style::Points => Look::Marks,
                _ if series.points.len() > 40 => Look::Line,
                _ => Look::Joined,
            };
            let marks = thinned(&series.points);
            let points = marks.into_iter().map(|(x, y)| Mark { x, y, ci95: None }).collect();
            let colour = self.series.len();
            let what = (!figure.besides.is_empty()).then_some(course);
            let name = series_name(point, keys, what);
            self.series.push(Line { group: name.clone(), name, colour, look, points });
        }
    }

    fn numbers(
        &mut self,
        results: &Results,
        points: &[&PointResult],
        keys: &[String],
        figure: &Figure,
    ) {
        let x_of = |point: &PointResult| {
            let coordinate = point.coordinate(&figure.x);
            coordinate.or_else(|| Some(Coordinate::Number(point.numbers.get(&figure.x)?.mean)))
        };
        let words = points.iter().any(|point| matches!(x_of(point), Some(Coordinate::Word(_))));
        if words || figure.style == Style::Bars {
            let mut categories: Vec<String> = Vec::new();
            for word in points.iter().filter_map(|point| x_of(point)) {
                let word = word.to_string();
                if !categories.contains(&word) {
                    categories.push(word);
                }
            }
            // Sizes have an order of their own, whichever case has which.
            let size = |word: &String| word.parse::<ByteSize>().ok().map(|size| size.0);
            let number = |word: &String| word.parse::<f64>().ok();
            let by_number =
                |a: &String, b: &String| number(a).zip(number(b)).map(|(a, b)| a.total_cmp(&b));
            if categories.iter().all(|word| size(word).is_some()) {
                categories.sort_by_key(size);
            } else if categories.iter().all(|word| number(word).is_some()) {
                categories.sort_by(|a, b| by_number(a, b).expect("all are numbers"));
            }
            self.categories = Some(categories);
            self.bars = figure.style != Style::Points;
        }
        let mut colours: Vec<String> = Vec::new();
        let mut published: Vec<Line> = Vec::new();
        for point in points {
            for number in &figure.y {
                let (Some(x), Some(estimate)) = (x_of(point), point.numbers.get(number)) else {
                    continue;
                };
                let x = match (&self.categories, &x) {
                    (Some(categories), word) => {
                        let word = word.to_string();
                        let place = categories.iter().position(|known| *known == word);
                        place.expect("each point's is among them") as f64
                    }
                    (None, Coordinate::Number(x)) => *x,
                    (None, Coordinate::Word(_)) => continue,
                };
                let several = (figure.y.len() > 1).then_some(number.as_str());
                let name = series_name(point, keys, several);
                // Cases of the same thing share its colour, if some are told apart by their marks.
                let apart = !figure.points.is_empty();
                let others: Vec<String> =
                    keys.iter().filter(|key| !apart || *key != "case").cloned().collect();
                let group = series_name(point, &others, several);
                let colour =
                    colours.iter().position(|known| *known == group).unwrap_or_else(|| {
                        colours.push(group.clone());
                        colours.len() - 1
                    });
                let mark = Mark { x, y: estimate.mean, ci95: estimate.ci95 };
                let is_apart = point.case.as_ref().is_some_and(|case| figure.points.contains(case));
                let look = match figure.style {
                    Style::Points => Look::Marks,
                    _ if is_apart => Look::Marks,
                    _ if apart => Look::Line,
                    _ => Look::Joined,
                };
                push(&mut self.series, (&name, &group, colour, look), mark);
                for value in published_values(results, point, number) {
                    let mark = Mark { x, y: value, ci95: None };
                    let name = if name.is_empty() {
                        "published".to_owned()
                    } else {
                        format!("{name}, published")
                    };
                    push(&mut published, (&name, &group, colour, Look::Published), mark);
                }
            }
        }
        self.series.append(&mut published);
        for line in &mut self.series {
            line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
    }

    /// Whether an axis can be logarithmic.
    pub fn can_log(&self) -> (bool, bool) {
        let mut marks = self.series.iter().flat_map(|line| &line.points);
        let x = self.categories.is_none() && marks.all(|mark| mark.x > 0.0);
        let mut marks = self.series.iter().flat_map(|line| &line.points);
        (x, marks.all(|mark| mark.y > 0.0))
    }
}

fn push(series: &mut Vec<Line>, of: (&str, &str, usize, Look), mark: Mark) {
    let (name, group, colour, look) = of;
    match series.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(mark),
        None => series.push(Line {
            name: name.to_owned(),
            group: group.to_owned(),
            colour,
            look,
            points: vec![mark],
        }),
    }
}

/// The published values of a number at a point.
pub(super) fn published_values<'a>(
    results: &'a Results,
    point: &'a PointResult,
    number: &'a str,
) -> impl Iterator<Item = f64> + 'a {
    let of_point = move |paper: &&crate::Paper| {
        paper.number == number && matches(&paper.only, point.case.as_deref(), &point.coordinates)
    };
    results.experiment.paper.iter().filter(of_point).filter_map(|paper| match &paper.by {
        Some(by) => paper.values.get(&point.coordinate(by)?.to_string()).copied(),
        None => paper.value,
    })
}

/// Keys other than x that have several values.
fn varying(results: &Results, points: &[&PointResult], x: &str) -> Vec<String> {
    let keys = results.experiment.swept_keys();
    let varies = |key: &String| {
        let mut values = points.iter().map(|point| point.coordinate(key));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    keys.into_iter().filter(|key| key != x).filter(varies).collect()
}

fn series_name(point: &PointResult, keys: &[String], number: Option<&str>) -> String {
    let several = keys.len() > 1;
    let values = keys.iter().filter_map(|key| match point.coordinate(key)? {
        // A number alone says too little.
        Coordinate::Number(value) if several || number.is_some() => {
            Some(format!("{} {value}", last(key)))
        }
        Coordinate::Number(value) => Some(format!("{} {value}", last(key).replace('_', " "))),
        Coordinate::Word(word) => Some(word),
    });
    values.chain(number.map(label::words)).collect::<Vec<_>>().join(", ")
}

/// The last part of a dotted key.
fn last(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).to_owned()
}

fn names(numbers: &[String]) -> String {
    match numbers {
        [one] => label::words(one),
        _ => {
            // The unit that all share.
            let units: Vec<Option<String>> = numbers
                .iter()
                .map(|name| {
                    Some(label::words(name).rsplit_once(" (")?.1.trim_end_matches(')').to_owned())
                })
                .collect();
            match units.first() {
                Some(Some(unit)) if units.iter().all(|other| other.as_ref() == Some(unit)) => {
                    unit.clone()
                }
                _ => String::new(),
            }
        }
    }
}

/// At most [`POINTS_MAX`] points: of each group of neighbours the lowest and the highest.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let size = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = BTreeMap::new();
    for (number, group) in points.chunks(size).enumerate() {
        let by_y = |a: &usize, b: &usize| group[*a].1.total_cmp(&group[*b].1);
        for index in [(0..group.len()).min_by(by_y), (0..group.len()).max_by(by_y)] {
            let index = index.expect("a chunk has something");
            kept.insert(number * size + index, group[index]);
        }
    }
    kept.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_along_the_axis_are_in_order_and_words_as_swept() {
        const FILE: &str = "name = \"m\"\ntitle = \"M\"\nsource = \"S\"\nquestion = \"Q\"\n\
            kind = \"reclaim-cost\"\n[configuration]\ndevice = { file = \"970pro\" }\ndata.write_bytes = \"4K\"\n\
            [[case]]\nname = \"a\"\nsweep.\"data.bytes\" = [\"128M\", \"1G\"]\n\
            [[case]]\nname = \"b\"\nsweep.\"data.bytes\" = [\"8M\", \"32M\"]\n\
            [[figure]]\nname = \"f\"\ntitle = \"F\"\nx = \"data.bytes\"\ny = [\"n\"]\n\
            [[figure]]\nname = \"g\"\ntitle = \"G\"\nx = \"case\"\ny = [\"n\"]\n\
            [[figure]]\nname = \"h\"\ntitle = \"H\"\nx = \"n\"\ny = [\"n\"]\nstyle = \"bars\"\n";
        use crate::kinds::unchecked;
        use crate::{Changes, Estimate, Outcome, Plan, SeedResult, Version};
        let plan = Plan::new("m.toml", FILE, &Changes::default(), &unchecked::kinds()).unwrap();
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let mut results = Results::new(&plan, &version, Vec::new());
        for (point, mean) in results.points.iter_mut().zip([3.5, 20.0, 0.25, 20.0]) {
            point.numbers.insert("n".to_owned(), Estimate { mean, ci95: None, runs: 1 });
            point.runs.push(SeedResult { seed: 1, outcome: Outcome::default() });
        }
        let shown = |figure: usize| {
            Chart::new(&results, &results.experiment.figure[figure]).unwrap().categories.unwrap()
        };
        assert_eq!(shown(0), ["8M", "32M", "128M", "1G"]);
        assert_eq!(shown(1), ["a", "b"]);
        assert_eq!(shown(2), ["0.25", "3.5", "20"], "bars have places, of numbers in order");
    }

    #[test]
    fn words_that_are_numbers_stand_at_their_places() {
        const FILE: &str = "name = \"m\"\ntitle = \"M\"\nsource = \"S\"\nquestion = \"Q\"\n\
            kind = \"closed-form\"\n[configuration]\npages = 64\nspare = 0.1\n[sweep]\n\
            policy = [{ label = \"0.20\", victim = \"greedy\" }, { label = \"0.10\", victim = \"fifo\" }]\n\
            [[figure]]\nname = \"f\"\ntitle = \"F\"\nx = \"policy\"\ny = [\"n\"]\nstyle = \"bars\"\n";
        use crate::kinds::unchecked;
        use crate::{Changes, Estimate, Outcome, Plan, SeedResult, Version};
        let plan = Plan::new("m.toml", FILE, &Changes::default(), &unchecked::kinds()).unwrap();
        let version = Version { version: "1".to_owned(), build: "b".to_owned() };
        let mut results = Results::new(&plan, &version, Vec::new());
        for (point, mean) in results.points.iter_mut().zip([3.5, 20.0]) {
            point.numbers.insert("n".to_owned(), Estimate { mean, ci95: None, runs: 1 });
            point.runs.push(SeedResult { seed: 1, outcome: Outcome::default() });
        }
        let chart = Chart::new(&results, &results.experiment.figure[0]).unwrap();
        assert_eq!(chart.categories.unwrap(), ["0.10", "0.20"]);
        let marks = chart.series.iter().flat_map(|line| &line.points);
        let mut places: Vec<_> = marks.map(|mark| (mark.x, mark.y)).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(places, [(0.0, 20.0), (1.0, 3.5)]);
    }

    #[test]
    fn thinning_keeps_the_extremes_and_the_order() {
        let points: Vec<(f64, f64)> = (0..10_000)
            .map(|i| (f64::from(i), if i == 5_432 { 99.0 } else { f64::from(i % 7) }))
            .collect();
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS_MAX && kept.contains(&(5_432.0, 99.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }
}
