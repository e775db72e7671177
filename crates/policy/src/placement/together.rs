//! Everything in one stream.

use crate::placement::{BlockView, PlacementPolicy, Stream};

/// One stream for everything: the plain log, and the yardstick for every other placement. It is
/// what the closed forms of write amplification assume.
#[derive(Clone, Copy, Debug, Default)]
pub struct Together;

impl PlacementPolicy for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn streams(&self) -> u8 {
        1
    }

    fn place(&mut self, _block: &BlockView) -> Stream {
        Stream(0)
    }
}
