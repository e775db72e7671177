//! Everything in one stream.

use crate::placement::{BlockView, PlacementPolicy, Source, Stream};

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

    fn place(&self, _block: &BlockView) -> Stream {
        Stream(0)
    }

    fn fixed(&self, _source: Source) -> Option<Stream> {
        Some(Stream(0))
    }
}
