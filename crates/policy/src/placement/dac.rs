//! DAC: blocks warm up when they are overwritten and cool down when they are moved.

use crate::Parameter;
use crate::parameters::Arguments;
use crate::placement::{BlockView, PlacementPolicy, Shape, Source, Stream};

/// Dynamic data clustering (Chiang, Lee and Chang, "Using Data Clustering to Improve Cleaning
/// Performance for Flash Memory", 1999).
///
/// A new block is cold, stream 0. A write that replaces a block puts the new version one stream
/// up, and relocation puts it one stream down: so a block hovers where the two balance. Its
/// temperature is the stream that it lies in, so nothing needs to be remembered beside the log.
#[derive(Clone, Copy, Debug)]
pub struct Dac {
    streams: u8,
}

impl Dac {
    pub(super) const PARAMETERS: &[Parameter] =
        &[Parameter::whole("classes", "temperatures", (1, 64), 6)];

    pub(super) fn of(arguments: &Arguments, shape: &Shape) -> Self {
        Dac::new(arguments.small("classes"), shape)
    }

    /// So many temperatures (at least one), or as many as the shape allows.
    pub fn new(classes: u8, shape: &Shape) -> Self {
        Dac { streams: classes.min(shape.streams_max).max(1) }
    }
}

impl PlacementPolicy for Dac {
    fn name(&self) -> &'static str {
        "dac"
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView) -> Stream {
        let Some(previous) = block.previous else { return Stream(0) };
        let temperature = match block.source {
            Source::Client => previous.stream.0.saturating_add(1),
            Source::Reclaim => previous.stream.0.saturating_sub(1),
        };
        Stream(temperature.min(self.streams - 1))
    }
}
