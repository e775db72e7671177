//! When a measurement ends.

use std::cell::Cell;

use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::{Op, Request};

use super::spec::MeasureSpec;

/// What ends jobs that say no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    None,
    /// So many blocks of writes, and nothing else.
    Writes {
        /// Whether requests take time.
        timed: bool,
    },
    /// So many requests, or so much time.
    Requests,
}

/// What is left of a measurement: requests, blocks of writes, time. Without any, nothing.
#[derive(Debug, Default)]
pub struct Limits {
    pub(super) requests: Cell<u64>,
    pub(super) blocks: Cell<u64>,
    /// In nanoseconds of the clock; before it starts, so many after that.
    pub(super) until_ns: Cell<u64>,
    made: Cell<u64>,
    flushes: Cell<u64>,
    /// Requests and blocks that there will be at most, as far as that is known.
    of: Cell<(u64, u64)>,
    pub(super) from_ns: Cell<u64>,
}

impl Limits {
    /// As a measurement on a drive of so many bytes has them.
    pub fn new(measure: &MeasureSpec, drive_bytes: u64) -> Self {
        let limits = Limits::default();
        limits.requests.set(measure.requests.unwrap_or(u64::MAX));
        limits.blocks.set(measure.blocks_most(drive_bytes));
        limits.of.set((limits.requests.get(), limits.blocks.get()));
        limits.until_ns.set(measure.ns_most());
        limits
    }

    /// The workload ends by itself after so many requests, flushes not counted: what the share done is
    /// told of where nothing else limits them.
    pub fn expect(&self, requests_max: Option<u64>) {
        if let Some(all) = requests_max {
            let (requests, blocks) = self.of.get();
            self.of.set((requests.min(all), blocks));
        }
    }

    /// The clock that they count from starts now.
    pub fn start(&self, now_ns: u64) {
        self.from_ns.set(now_ns);
        self.until_ns.set(self.until_ns.get().saturating_add(now_ns));
    }

    /// When the clock started, in nanoseconds.
    pub fn from_ns(&self) -> u64 {
        self.from_ns.get()
    }

    /// When time is up, in nanoseconds; [`u64::MAX`] for never.
    pub fn until_ns(&self) -> u64 {
        self.until_ns.get()
    }

    /// Whether another request may be made.
    pub fn allow(&self, now_ns: u64) -> bool {
        self.requests.get() > 0 && self.blocks.get() > 0 && now_ns < self.until_ns.get()
    }

    /// A request is made.
    pub fn take(&self, request: &Request) {
        self.made.set(self.made.get() + 1);
        self.flushes.set(self.flushes.get() + u64::from(request.op == Op::Flush));
        self.requests.set(self.requests.get().saturating_sub(1));
        if request.op == Op::Write {
            let blocks = request.length.div_ceil(BLOCK_SIZE);
            self.blocks.set(self.blocks.get().saturating_sub(blocks));
        }
    }

    /// Whether the requests themselves are known to end.
    pub fn counts_requests(&self) -> bool {
        self.of.get().0 != u64::MAX
    }

    /// Requests made.
    pub fn taken(&self) -> u64 {
        self.made.get()
    }

    /// The share done, 0 to 1.
    pub fn done(&self, now_ns: u64) -> f64 {
        let part = |done: u64, of: u64| match of {
            0 | u64::MAX => 0.0,
            of => done as f64 / of as f64,
        };
        let (requests, blocks) = self.of.get();
        let time = match self.until_ns.get() {
            u64::MAX => 0.0,
            until => {
                let span = until.saturating_sub(self.from_ns.get()).max(1);
                now_ns.saturating_sub(self.from_ns.get()) as f64 / span as f64
            }
        };
        part(self.made.get() - self.flushes.get(), requests)
            .max(part(blocks.saturating_sub(self.blocks.get()), blocks))
            .max(time)
            .clamp(0.0, 1.0)
    }
}
