//! By the averaged overwrite interval, in logarithmic buckets.

use crate::Parameter;
use crate::parameters::Arguments;
use crate::placement::table::Table;
use crate::placement::{BlockView, PlacementPolicy, Shape, Source, Stream};

/// The most memory for blocks, in bytes: for 4 GiB of those that were written of late.
const BYTES_MAX: u64 = 12 << 20;

/// Remembers for each block how long its versions live on average, and puts together what is within
/// a power of two.
///
/// Stream 0 takes what is overwritten within a segment's worth of writes, stream 1 within two,
/// stream 2 within four, and so on; the last takes all that lives longer, and what was never
/// overwritten. The average gives each new interval a weight of a quarter. A block that outlived its average
/// when reclaim meets it goes by its age instead.
///
/// What is forgotten (see the table's bound), and all of it after a restart, begins again with the
/// one interval that the log itself knows.
#[derive(Clone, Debug)]
pub struct Interval {
    streams: u8,
    segment_blocks: u64,
    /// An average gives a new interval a weight of one in so many.
    over: u64,
    averages: Table,
}

impl Interval {
    pub(super) const PARAMETERS: &[Parameter] = &[
        Parameter::whole("classes", "overwrite intervals told apart", (1, 64), 8),
        Parameter::whole("over", "a new interval's weight: one in so many", (1, 1024), 4),
    ];

    pub(super) fn of(arguments: &Arguments, shape: &Shape) -> Self {
        let blocks = shape.blocks().saturating_mul(2);
        Interval {
            streams: arguments.small("classes").min(shape.streams_max).max(1),
            segment_blocks: shape.segment_blocks.max(1),
            over: arguments.whole("over"),
            averages: Table::new(blocks, shape.memory_bytes_max.min(BYTES_MAX)),
        }
    }

    fn average(&self, block: &BlockView) -> Option<u64> {
        let known = self.averages.get(block.volume, block.lba.0, block.now_sequence);
        known.map(|known| u64::from(known.value))
    }

    /// The average with the interval that ends now.
    fn next_average(&self, block: &BlockView) -> Option<u64> {
        let interval = block.age()?;
        let joined = |average| (average * (self.over - 1) + interval) / self.over;
        Some(self.average(block).map_or(interval, joined))
    }
}

impl PlacementPolicy for Interval {
    fn name(&self) -> &'static str {
        "interval"
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView) -> Stream {
        let lives = match block.source {
            Source::Client => self.next_average(block),
            Source::Reclaim => self.average(block).max(block.age()),
        };
        let segments = lives.map_or(u64::MAX, |lives| lives / self.segment_blocks);
        let bucket = u64::BITS - segments.leading_zeros();
        Stream(bucket.min(u32::from(self.streams) - 1) as u8)
    }

    fn wrote(&mut self, block: &BlockView, _stream: Stream) {
        if block.source == Source::Client
            && let Some(average) = self.next_average(block)
        {
            let average = u32::try_from(average).unwrap_or(u32::MAX);
            self.averages.set(block.volume, block.lba.0, block.now_sequence, average);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.averages.bytes()
    }
}
