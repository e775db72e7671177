//! SepBIT: from how long a block lived, how long its next version will.

use crate::placement::{BlockView, PlacementPolicy, ReclaimedSegment, Shape, Source, Stream};

const STREAMS: u8 = 6;
/// Segments of stream 0 over which the mean lifetime is taken.
const SAMPLE: u32 = 16;

/// Separation by inferred block invalidation time (Wang et al., "Separating Data via Block
/// Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage",
/// FAST'22).
///
/// Let `l` be the mean lifetime of the last sixteen segments of stream 0, from their opening to
/// their reclaim; before there were as many, it is without end. A client's write that replaces a
/// version younger than `l` will soon be replaced itself: stream 0; any other goes to stream 1. A
/// block moved out of stream 0 goes to stream 2. Other moved blocks go by their age since a client
/// wrote them: below `4l` to stream 3, below `16l` to stream 4, else to stream 5.
///
/// With fewer streams, the last of them takes all later ones: with two, short-lived blocks are apart
/// from all others.
///
/// The paper keeps a queue of recent addresses to tell a young version from an old one. Here the
/// log knows how old a version is, so all that is remembered is `l`; a restart forgets it.
#[derive(Clone, Copy, Debug)]
pub struct SepBit {
    streams: u8,
    lifetime: f64,
    sampled: u32,
    sum: f64,
}

impl SepBit {
    /// Six streams, or as many as the shape allows.
    pub fn new(shape: &Shape) -> Self {
        let streams = shape.streams_max.clamp(1, STREAMS);
        SepBit { streams, lifetime: f64::INFINITY, sampled: 0, sum: 0.0 }
    }
}

impl PlacementPolicy for SepBit {
    fn name(&self) -> &'static str {
        "sepbit"
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView) -> Stream {
        let age = block.age().map(|age| age as f64);
        let stream = match block.source {
            Source::Client => u8::from(age.is_none_or(|age| age >= self.lifetime)),
            Source::Reclaim if block.previous.is_some_and(|previous| previous.stream.0 == 0) => 2,
            Source::Reclaim => match age.unwrap_or(f64::INFINITY) {
                age if age < 4.0 * self.lifetime => 3,
                age if age < 16.0 * self.lifetime => 4,
                _ => 5,
            },
        };
        Stream(stream.min(self.streams - 1))
    }

    fn reclaimed(&mut self, segment: &ReclaimedSegment) {
        if segment.stream != Stream(0) {
            return;
        }
        self.sum += segment.lifetime() as f64;
        self.sampled += 1;
        if self.sampled == SAMPLE {
            self.lifetime = self.sum / f64::from(SAMPLE);
            (self.sum, self.sampled) = (0.0, 0);
        }
    }
}
