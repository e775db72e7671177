//! The requests that one fitted request becomes.

use super::REGION_BYTES;
use crate::{Op, Request};

/// The requests that one became, in the order of their addresses in the trace.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// What is left to be cut; `None` when nothing is.
    rest: Option<Request>,
    cut: Cut,
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Not,
    /// At the device's end, to go on from its start.
    Around {
        bytes: u64,
    },
    /// At regions' ends, each region mapped.
    Regions {
        from: u64,
        to: u64,
    },
}

impl Pieces {
    pub(super) fn none() -> Self {
        Pieces { rest: None, cut: Cut::Not }
    }

    pub(super) fn one(request: Request) -> Self {
        Pieces { rest: Some(request), cut: Cut::Not }
    }

    pub(super) fn around(request: Request, bytes: u64) -> Self {
        Pieces { rest: Some(request), cut: Cut::Around { bytes } }
    }

    /// Maps regions `0..from` to `0..to`. Where there are fewer than before, a trim or a write of
    /// zeroes over whole regions covers what these became at once, however many they were: it
    /// moves no data that could be counted.
    pub(super) fn scaled(request: Request, from: u64, to: u64) -> Self {
        let covers = matches!(request.op, Op::Trim | Op::WriteZeroes);
        let has_whole_region = request.offset.div_ceil(REGION_BYTES) < request.end() / REGION_BYTES;
        if !covers || !has_whole_region || to > from {
            return Pieces { rest: Some(request), cut: Cut::Regions { from, to } };
        }
        let place = |at: u64| map(at / REGION_BYTES, from, to) * REGION_BYTES + at % REGION_BYTES;
        let (start, end) = (place(request.offset), place(request.end() - 1) + 1);
        if start / REGION_BYTES == (end - 1) / REGION_BYTES {
            // All of it became one region, and a whole one is among it.
            let offset = start / REGION_BYTES * REGION_BYTES;
            return Pieces::one(Request { offset, length: REGION_BYTES, ..request });
        }
        Pieces::one(Request { offset: start, length: end - start, ..request })
    }

    /// How many there are still to come.
    pub(super) fn count_left(&self) -> u64 {
        let Some(rest) = &self.rest else { return 0 };
        match self.cut {
            Cut::Not => 1,
            Cut::Around { bytes } => 1 + u64::from(rest.end() > bytes),
            Cut::Regions { .. } => self.clone().count() as u64,
        }
    }
}

fn map(region: u64, from: u64, to: u64) -> u64 {
    (u128::from(region) * u128::from(to) / u128::from(from)) as u64
}

impl Iterator for Pieces {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let rest = self.rest.take()?;
        match self.cut {
            Cut::Not => Some(rest),
            Cut::Around { bytes } => {
                if rest.end() <= bytes {
                    return Some(rest);
                }
                let length = bytes - rest.offset;
                self.rest = Some(Request { offset: 0, length: rest.length - length, ..rest });
                Some(Request { length, ..rest })
            }
            Cut::Regions { from, to } => {
                let first = rest.offset / REGION_BYTES;
                let mut end = ((first + 1) * REGION_BYTES).min(rest.end());
                // Regions that stay neighbours stay one request.
                while end < rest.end() {
                    let region = end / REGION_BYTES;
                    if map(region, from, to) != map(region - 1, from, to) + 1 {
                        break;
                    }
                    end = (end + REGION_BYTES).min(rest.end());
                }
                let length = end - rest.offset;
                if end < rest.end() {
                    self.rest = Some(Request { offset: end, length: rest.length - length, ..rest });
                }
                let offset = map(first, from, to) * REGION_BYTES + rest.offset % REGION_BYTES;
                Some(Request { offset, length, ..rest })
            }
        }
    }
}
