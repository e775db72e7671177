//! The load of the validation runs that DiskSim's SSD extension was published with. The crate's
//! head explains the response times that they give.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::{Request, RequestKind};

/// "Storage capacity per device" of the validation files, in their "blocking factor": 7,018,904
/// sectors, which is an eighth of the drive.
const PAGES: u64 = 7_018_904 / 8;
const PAGE_BYTES: u64 = 4096;

/// Requests without end, each with its arrival in nanoseconds. They reach only the first
/// [`BYTES`](ValidationLoad::BYTES) of a drive.
#[derive(Clone, Debug)]
pub struct ValidationLoad {
    kind: RequestKind,
    sequential: bool,
    random: Pcg64Mcg,
    now_ns: u64,
    page: u64,
    pages: u64,
}

impl ValidationLoad {
    /// Bytes of a drive that the requests address.
    pub const BYTES: u64 = PAGES * PAGE_BYTES;

    /// Requests of one kind, one behind the other or at random.
    pub fn new(kind: RequestKind, sequential: bool, seed: u64) -> Self {
        let random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        ValidationLoad { kind, sequential, random, now_ns: 0, page: 0, pages: 1 }
    }

    /// From 0 (included) to 1 (not included).
    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// First page and pages of a request: sizes are exponential with mean 8 sectors, in whole
    /// sectors rounded up to pages; those below one sector are drawn again, together with the
    /// address.
    fn draw(&mut self) -> (u64, u64) {
        loop {
            let page = (self.unit() * PAGES as f64) as u64;
            let sectors = (-8.0 * (1.0 - self.unit()).ln()) as u64;
            let pages = sectors.div_ceil(8);
            if pages > 0 && page + pages < PAGES {
                return (page, pages);
            }
        }
    }
}

impl Iterator for ValidationLoad {
    type Item = (u64, Request);

    fn next(&mut self) -> Option<(u64, Request)> {
        self.now_ns += (self.unit() * 1e6) as u64;
        if self.sequential && self.page + 2 * self.pages < PAGES {
            self.page += self.pages;
        } else if self.sequential {
            self.page = 0;
        } else {
            (self.page, self.pages) = self.draw();
        }
        let (offset_bytes, length_bytes) = (self.page * PAGE_BYTES, self.pages * PAGE_BYTES);
        Some((self.now_ns, Request { kind: self.kind, offset_bytes, length_bytes }))
    }
}
