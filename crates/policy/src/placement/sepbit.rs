//! SepBIT: from how long a block lived, how long its next version will.

use crate::Parameter;
use crate::parameters::Arguments;
use crate::placement::{BlockView, PlacementPolicy, ReclaimedSegment, Shape, Source, Stream};

/// Streams for what reclaim moves.
const MOVED: u8 = 4;

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
/// With one class for clients instead of two, all that they write goes to stream 0, and what is moved to
/// streams 1 to 4 by the same rules. Then nothing is looked up for a write. It is what the paper calls
/// *GW*.
///
/// The paper keeps a queue of recent addresses to tell a young version from an old one. Here the
/// log knows how old a version is, so all that is remembered is `l`; a restart forgets it.
#[derive(Clone, Copy, Debug)]
pub struct SepBit {
    streams: u8,
    /// Of these, streams for clients: 1 or 2.
    clients: u8,
    /// Segments of stream 0 over which the mean lifetime is taken.
    sample: u32,
    /// Moved blocks below these multiples of the mean lifetime are young, and middle-aged.
    young: f64,
    middle: f64,
    lifetime: f64,
    sampled: u32,
    sum: f64,
}

impl SepBit {
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter::whole("clients", "classes of what clients write", (1, 2), 2),
        Parameter::whole("sample", "segments that the mean lifetime is of", (1, 1 << 20), 16),
        Parameter::real(
            "young",
            "mean lifetimes below which a moved block is young",
            (0.0625, 65_536.0),
            4.0,
        ),
        Parameter::real(
            "middle",
            "mean lifetimes below which a moved block is middle-aged",
            (0.0625, 65_536.0),
            16.0,
        ),
    ];

    pub(super) fn of(arguments: &Arguments, shape: &Shape) -> Self {
        let clients = arguments.small("clients");
        SepBit {
            streams: (clients + MOVED).min(shape.streams_max).max(1),
            clients,
            sample: arguments.whole("sample") as u32,
            young: arguments.real("young"),
            middle: arguments.real("middle"),
            lifetime: f64::INFINITY,
            sampled: 0,
            sum: 0.0,
        }
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
        let is_short_lived = block.previous.is_some_and(|previous| previous.stream.0 == 0);
        let stream = match block.source {
            Source::Client if self.clients == 1 => 0,
            Source::Client => u8::from(age.is_none_or(|age| age >= self.lifetime)),
            Source::Reclaim if is_short_lived => self.clients,
            Source::Reclaim => {
                let older = match age.unwrap_or(f64::INFINITY) {
                    age if age < self.young * self.lifetime => 1,
                    age if age < self.middle * self.lifetime => 2,
                    _ => 3,
                };
                self.clients + older
            }
        };
        Stream(stream.min(self.streams - 1))
    }

    fn fixed(&self, source: Source) -> Option<Stream> {
        (self.clients == 1 && source == Source::Client).then_some(Stream(0))
    }

    fn reclaimed(&mut self, segment: &ReclaimedSegment) {
        if segment.stream != Stream(0) {
            return;
        }
        self.sum += segment.lifetime() as f64;
        self.sampled += 1;
        if self.sampled == self.sample {
            self.lifetime = self.sum / f64::from(self.sample);
            (self.sum, self.sampled) = (0.0, 0);
        }
    }
}
