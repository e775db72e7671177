//! Clients and reclaim apart.

use crate::placement::{BlockView, PlacementPolicy, Shape, Source, Stream};

/// A stream each for clients and for reclaim.
///
/// A block that survived until its segment was reclaimed has shown that it lives long; fresh
/// writes have shown nothing yet. Keeping the two apart wins a good part of what cleverer schemes
/// win under skewed loads, and costs nothing under uniform ones.
#[derive(Clone, Copy, Debug)]
pub struct HostReclaimApart {
    streams: u8,
}

impl HostReclaimApart {
    /// Two streams, or one where the shape allows no more.
    pub fn new(shape: &Shape) -> Self {
        HostReclaimApart { streams: shape.streams_max.clamp(1, 2) }
    }
}

impl Default for HostReclaimApart {
    fn default() -> Self {
        HostReclaimApart { streams: 2 }
    }
}

impl PlacementPolicy for HostReclaimApart {
    fn name(&self) -> &'static str {
        "apart"
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView) -> Stream {
        match block.source {
            Source::Client => Stream(0),
            Source::Reclaim => Stream(self.streams - 1),
        }
    }

    fn fixed(&self, source: Source) -> Option<Stream> {
        match source {
            Source::Client => Some(Stream(0)),
            Source::Reclaim => Some(Stream(self.streams - 1)),
        }
    }
}
