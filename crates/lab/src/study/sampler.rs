//! Looks at the engine now and then, for courses over time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mjolnir_engine::SegmentContent;

use super::client::Host;
use super::measured::Figures;
use super::spec::Study;

/// Looks at the engine now and then.
pub(super) struct Sampler {
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
    free_share: f64,
    /// Blocks of payload in sealed segments of data.
    data_blocks: f64,
}

/// Nanoseconds, or blocks, between the first looks.
const FIRST_STEP: (u64, u64) = (1_000_000, 256);

impl Sampler {
    pub fn start(host: &Host, study: &Study) -> Rc<Self> {
        let timed = study.measure.timed;
        let step = if timed { FIRST_STEP.0 } else { FIRST_STEP.1 };
        let sampler = Rc::new(Sampler {
            timed,
            next: Cell::new(0),
            step: Cell::new(step),
            points_max: study.measure.points.max(2),
            points: RefCell::default(),
        });
        sampler.look(host);
        sampler
    }

    /// Looks, if it is time to.
    pub fn look(&self, host: &Host) {
        let at = match self.timed {
            true => host.runtime.now_ns() - host.limits.from_ns.get(),
            false => host.limits.of.get().0.wrapping_sub(host.limits.requests.get()),
        };
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
        let stats = host.engine.stats();
        let segments = host.engine.segments();
        let data = segments.iter().filter(|segment| segment.content != SegmentContent::Map);
        points.push(Point {
            at: if self.timed { at as f64 / 1e9 } else { at as f64 },
            moved: stats.moved_bytes as f64,
            written: stats.accepted_write_bytes as f64,
            free_share: 1.0 - stats.space.utilization,
            data_blocks: data.map(|segment| segment.payload_blocks as f64).sum(),
        });
    }

    /// Blocks of payload in sealed segments of data, in the mean of all looks.
    pub fn mean_data_blocks(&self) -> f64 {
        let points = self.points.borrow();
        points.iter().map(|point| point.data_blocks).sum::<f64>() / points.len().max(1) as f64
    }

    pub fn tell(&self, figures: &mut Figures) {
        let points = self.points.borrow();
        let x = if self.timed { "time_s" } else { "requests" };
        let free = points.iter().map(|point| (point.at, point.free_share)).collect();
        figures.course("free_space", x, "share_of_segments", free);
        let share = |pair: &[Point]| {
            let (moved, written) =
                (pair[1].moved - pair[0].moved, pair[1].written - pair[0].written);
            let all = moved + written;
            (all > 0.0).then_some((pair[1].at, moved / all))
        };
        let shares = points.windows(2).filter_map(share).collect();
        figures.course("reclaim_share", x, "share_of_data_writes", shares);
        if self.timed {
            let rate = |pair: &[Point]| {
                let mib = (pair[1].moved - pair[0].moved) / f64::from(1 << 20);
                (pair[1].at, mib / (pair[1].at - pair[0].at))
            };
            let rates = points.windows(2).map(rate).collect();
            figures.course("reclaim_bandwidth", x, "reclaim_mib_per_s", rates);
        }
    }
}
