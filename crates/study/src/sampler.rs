//! What a drive's engine does over time: a look at its counts now and then.

use std::cell::{Cell, RefCell};

use mjolnir_device::{Device, Runtime};
use mjolnir_engine::{Engine, SegmentContent};
use mjolnir_store::report::Stats;

use super::measured::Figures;
use super::spec::MeasureSpec;

/// Nanoseconds, or requests, between the first looks; it doubles as the run gets longer.
const FIRST_STEP: (u64, u64) = (1_000_000, 256);
/// Utilization that reclaim must leave alone where it begins at half (the paper's figure 2).
const HALF: f64 = 0.5;
/// Points of a course of rates at most, so that the rounds of reclaim do not hide its course.
const RATE_POINTS: usize = 80;

/// Looks at the engine now and then.
pub struct Sampler {
    timed: bool,
    next: Cell<u64>,
    step: Cell<u64>,
    points_max: usize,
    points: RefCell<Vec<Point>>,
}

/// What was seen.
#[derive(Clone, Copy)]
struct Point {
    at: f64,
    moved: f64,
    written: f64,
    read: f64,
    media: f64,
    utilization: f64,
    share: f64,
    allocated: f64,
    reclaimed: f64,
    scan_cpu_ns: f64,
    /// Reclaim's live bits and index.
    reclaim_memory: f64,
    /// Blocks of payload in sealed segments of data.
    data_blocks: f64,
}

impl Point {
    fn new(at: f64, stats: &Stats, data_blocks: f64) -> Self {
        Point {
            at,
            moved: stats.moved_bytes as f64,
            written: stats.accepted_write_bytes as f64,
            read: stats.device_read_bytes as f64,
            media: stats.device_write_bytes as f64,
            utilization: stats.space.utilization,
            share: stats.reclaim_share,
            allocated: stats.segments_allocated as f64,
            reclaimed: stats.segments_reclaimed as f64,
            scan_cpu_ns: stats.scan_cpu_ns as f64,
            reclaim_memory: (stats.mark_bytes + stats.index_bytes + stats.relocation_bytes) as f64,
            data_blocks,
        }
    }
}

impl Sampler {
    /// Courses have about as many points as is said there, and go over time or over requests.
    pub fn new(measure: &MeasureSpec) -> Self {
        let step = if measure.timed { FIRST_STEP.0 } else { FIRST_STEP.1 };
        Sampler {
            timed: measure.timed,
            next: Cell::new(0),
            step: Cell::new(step),
            points_max: measure.points.max(2),
            points: RefCell::default(),
        }
    }

    /// Looks, if it is time to: it is `at` nanoseconds, or requests, after the beginning.
    pub fn look<D: Device, R: Runtime>(&self, at: u64, engine: &Engine<D, R>) {
        if at < self.next.get() {
            return;
        }
        let mut points = self.points.borrow_mut();
        if points.len() >= 2 * self.points_max {
            let mut odd = false;
            points.retain(|_| {
                odd = !odd;
                odd
            });
            self.step.set(self.step.get() * 2);
        }
        self.next.set(at + self.step.get());
        let stats = engine.stats();
        let segments = engine.segments();
        let data = segments.iter().filter(|segment| segment.content != SegmentContent::Map);
        let data_blocks = data.map(|segment| segment.payload_blocks as f64).sum();
        let at = if self.timed { at as f64 / 1e9 } else { at as f64 };
        points.push(Point::new(at, &stats, data_blocks));
    }

    /// Blocks of payload in sealed segments of data, on the average over all looks.
    pub(super) fn mean_data_blocks(&self) -> f64 {
        let points = self.points.borrow();
        let count = points.len().max(1) as f64;
        points.iter().map(|point| point.data_blocks).sum::<f64>() / count
    }

    /// Tells what was seen.
    pub fn tell(&self, figures: &mut Figures) {
        let points = self.points.borrow();
        let x = if self.timed { "time_s" } else { "requests" };
        let each = |of: fn(&Point) -> f64| points.iter().map(move |point| (point.at, of(point)));
        let free = each(|point| 1.0 - point.utilization).collect();
        figures.course("free_space", x, "share_of_segments", free);
        let used = each(|point| point.utilization).collect();
        figures.course("used_space", x, "share_of_segments", used);
        figures.course("pacing_share", x, "reclaim_share", each(|point| point.share).collect());
        let share = |pair: &[Point]| {
            let (moved, written) =
                (pair[1].moved - pair[0].moved, pair[1].written - pair[0].written);
            let all = moved + written;
            (all > 0.0).then_some((pair[1].at, moved / all))
        };
        let shares = points.windows(2).filter_map(share).collect();
        figures.course("reclaim_share", x, "share_of_data_writes", shares);
        let most = points.iter().map(|point| point.reclaim_memory).fold(0.0, f64::max);
        figures.number("reclaim_memory_bytes_max", most);
        self.halves(figures, &points);
        steadiness(figures, &points);
        if self.timed {
            rates(figures, &points);
        }
    }

    /// What there was of reclaim below half the segments in use, and what of it in the end.
    fn halves(&self, figures: &mut Figures, points: &[Point]) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        // A walk alone does not count: one also runs where the map has much garbage of its own.
        let begun = |point: &&Point| point.moved > first.moved || point.reclaimed > first.reclaimed;
        if let Some(begun) = points.iter().find(begun) {
            figures.number("reclaim_began_at_utilization", begun.utilization);
            if self.timed {
                figures.number("reclaim_began_at_s", begun.at);
            }
        }
        let below = points.iter().take_while(|point| point.utilization < HALF).last();
        let below = below.map_or(0.0, |point| point.moved - first.moved);
        figures.number("moved_below_half_mib", below / f64::from(1 << 20));
        // The last quarter of the course, by its x.
        let from = first.at + 0.75 * (last.at - first.at);
        if let Some(quarter) = points.iter().find(|point| point.at >= from) {
            let allocated = last.allocated - quarter.allocated;
            if allocated > 0.0 {
                let reclaimed = last.reclaimed - quarter.reclaimed;
                figures.number("late_reclaimed_per_allocated", reclaimed / allocated);
            }
            let written = last.written - quarter.written;
            let all = written + last.moved - quarter.moved;
            if all > 0.0 {
                figures.number("late_client_share", written / all);
            }
        }
    }
}

/// Write amplification of data in both halves of what clients wrote.
fn steadiness(figures: &mut Figures, points: &[Point]) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let half = (first.written + last.written) / 2.0;
    let Some(middle) = points.iter().find(|point| point.written >= half) else { return };
    for (name, from, to) in
        [("waf_data_first_half", first, middle), ("waf_data_second_half", middle, last)]
    {
        let written = to.written - from.written;
        if written > 0.0 {
            figures.number(name, 1.0 + (to.moved - from.moved) / written);
        }
    }
}

/// Courses of what happens in a second.
fn rates(figures: &mut Figures, points: &[Point]) {
    let step = points.len().div_ceil(RATE_POINTS).max(1);
    let kept: Vec<&Point> = points.iter().step_by(step).collect();
    let mib = f64::from(1 << 20);
    let mut course = |name: &str, y: &str, unit: f64, of: fn(&Point) -> f64| {
        let rate = |pair: &[&Point]| {
            let seconds = pair[1].at - pair[0].at;
            (seconds > 0.0).then(|| (pair[1].at, (of(pair[1]) - of(pair[0])) / unit / seconds))
        };
        figures.course(name, "time_s", y, kept.windows(2).filter_map(rate).collect());
    };
    course("segments_allocated", "segments_per_s", 1.0, |point| point.allocated);
    course("segments_reclaimed", "segments_per_s", 1.0, |point| point.reclaimed);
    course("moved", "mib_per_s", mib, |point| point.moved);
    course("client_writes", "mib_per_s", mib, |point| point.written);
    course("device_reads", "mib_per_s", mib, |point| point.read);
    course("device_writes", "mib_per_s", mib, |point| point.media);
    course("scan_cores", "cores", 1e9, |point| point.scan_cpu_ns);
}
