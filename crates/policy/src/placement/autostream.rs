//! AutoStream: by the current temperature of the address.

use mjolnir_units::{Lba, TreeId};

use crate::Parameter;
use crate::parameters::Arguments;
use crate::placement::table::Table;
use crate::placement::{BlockView, PlacementPolicy, Shape, Source, Stream};

/// The most memory for chunks, in bytes: for 64 GiB of addresses that were written of late.
const BYTES_MAX: u64 = 384 << 10;
/// A chunk is in the first temperature below the first number of writes, and so on: the powers
/// of e.
const TEMPERATURES: [u32; 7] = [3, 8, 21, 55, 149, 404, 1097];

/// Sequentiality, frequency and recency (SFR of Yang et al., "AutoStream: Automatic Stream
/// Management for Multi-streamed SSDs", SYSTOR'17).
///
/// Each chunk of 2 MiB counts its writes; the count halves every 16,384 writes to the store. A write goes to
/// the stream of the count's natural logarithm, and one that continues where the last one ended, to
/// that one's stream. What reclaim moves has the last stream to itself. The writes of one request
/// to one chunk count as one.
#[derive(Clone, Debug)]
pub struct AutoStream {
    streams: u8,
    chunk_blocks: u64,
    /// Writes after which what was counted is worth half.
    half_life: u32,
    chunks: Table,
    last: Option<Last>,
}

/// The last block that a client wrote.
#[derive(Clone, Copy, Debug)]
struct Last {
    volume: TreeId,
    lba: Lba,
    sequence: u64,
    stream: Stream,
}

impl AutoStream {
    pub(super) const PARAMETERS: &[Parameter] = &[
        // With a ninth class there is one for each temperature.
        Parameter::whole("classes", "temperatures of chunks, and reclaim's class", (1, 9), 6),
        Parameter::whole("chunk", "blocks of a chunk", (1, 1 << 20), 512),
        Parameter::whole("half-life", "writes that halve a count", (1, 1 << 31), 16_384),
    ];

    pub(super) fn of(arguments: &Arguments, shape: &Shape) -> Self {
        let chunk_blocks = arguments.whole("chunk");
        let chunks = (shape.blocks() / chunk_blocks).saturating_mul(2);
        AutoStream {
            streams: arguments.small("classes").min(shape.streams_max).max(1),
            chunk_blocks,
            half_life: arguments.whole("half-life") as u32,
            chunks: Table::new(chunks, shape.memory_bytes_max.min(BYTES_MAX)),
            last: None,
        }
    }

    /// Writes to the block's chunk, as they count now, this one included.
    fn writes(&self, block: &BlockView) -> u32 {
        let chunk = block.lba.0 / self.chunk_blocks;
        let before = self.chunks.get(block.volume, chunk, block.now_sequence);
        before.map_or(0, |was| was.value.checked_shr(was.age / self.half_life).unwrap_or(0)) + 1
    }
}

impl PlacementPolicy for AutoStream {
    fn name(&self) -> &'static str {
        "autostream"
    }

    fn streams(&self) -> u8 {
        self.streams
    }

    fn place(&self, block: &BlockView) -> Stream {
        let last = self.streams - 1;
        if block.source == Source::Reclaim || last == 0 {
            return Stream(last);
        }
        if let Some(last) = self.last
            && (last.volume, last.lba.plus(1)) == (block.volume, block.lba)
        {
            return last.stream;
        }
        let writes = self.writes(block);
        let temperature = TEMPERATURES.iter().filter(|&&least| writes >= least).count() as u8;
        Stream(temperature.min(last - 1))
    }

    fn fixed(&self, source: Source) -> Option<Stream> {
        (source == Source::Reclaim).then_some(Stream(self.streams - 1))
    }

    fn wrote(&mut self, block: &BlockView, stream: Stream) {
        if block.source == Source::Reclaim {
            return;
        }
        let chunk = block.lba.0 / self.chunk_blocks;
        let counted = self.last.is_some_and(|last| {
            (last.volume, last.lba.0 / self.chunk_blocks, last.sequence)
                == (block.volume, chunk, block.now_sequence)
        });
        if !counted {
            self.chunks.set(block.volume, chunk, block.now_sequence, self.writes(block));
        }
        let BlockView { volume, lba, now_sequence: sequence, .. } = *block;
        self.last = Some(Last { volume, lba, sequence, stream });
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.bytes()
    }
}
