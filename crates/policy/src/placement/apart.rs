//! Clients, reclaim and the map apart.

use crate::placement::{BlockView, PlacementPolicy, Source, Stream};

/// A stream each for clients, for reclaim and for the map.
///
/// A block that survived until its segment was reclaimed has shown that it lives long; fresh
/// writes have shown nothing yet, and map nodes die at every checkpoint. Keeping the first two
/// apart alone is worth more than most cleverer schemes add to it under skewed loads, and costs
/// nothing under uniform ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostReclaimApart;

impl PlacementPolicy for HostReclaimApart {
    fn name(&self) -> &'static str {
        "apart"
    }

    fn streams(&self) -> u8 {
        3
    }

    fn place(&mut self, block: &BlockView) -> Stream {
        match block.source {
            Source::Client => Stream(0),
            Source::Reclaim => Stream(1),
            Source::Map => Stream(2),
        }
    }
}
