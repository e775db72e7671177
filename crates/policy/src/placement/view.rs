//! What a placement policy may look at.

use mjolnir_units::{Lba, TreeId};

/// Number of a stream; streams of a policy are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u8);

/// Who writes a block. The map's own blocks are no matter of policies: they have a stream to
/// themselves, since they die at every checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A client's write.
    Client,
    /// Relocation of a live block.
    Reclaim,
}

impl Source {
    /// All of them.
    pub const ALL: [Source; 2] = [Source::Client, Source::Reclaim];
}

/// The version of a block that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The stream that it was placed in. For a block that reclaim moved, that is the one that the policy
    /// named, even where the block lies elsewhere because space was too short.
    pub stream: Stream,
    /// Log sequence number at which a client wrote it, however often it was relocated since. An
    /// engine may know it by segment only, and then interpolates.
    pub birth_sequence: u64,
}

/// A block about to be written.
///
/// Ages and times are log sequence numbers. Where each record holds one block (4 KiB writes, the
/// replayer), they count blocks that clients wrote; larger requests count fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// Who writes it.
    pub source: Source,
    /// The volume that it was first written to.
    pub volume: TreeId,
    /// Its address there.
    pub lba: Lba,
    /// The log's present sequence number.
    pub now_sequence: u64,
    /// The version that a client's write replaces, or that reclaim moves. `None` for a block that
    /// nothing was known of: written the first time, or after a trim. An engine also forgets over a restart
    /// what it knew of blocks that lie elsewhere than the policy said.
    pub previous: Option<Previous>,
}

impl BlockView {
    /// How long the previous version has lived: for a client's write, the block's overwrite
    /// interval; for reclaim, the age of what it moves.
    pub fn age(&self) -> Option<u64> {
        self.previous.map(|previous| self.now_sequence.saturating_sub(previous.birth_sequence))
    }
}

/// A segment that was emptied and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimedSegment {
    /// The stream that filled it.
    pub stream: Stream,
    /// Log sequence number at which it was opened.
    pub opened_sequence: u64,
    /// Log sequence number at which it was sealed.
    pub sealed_sequence: u64,
    /// The log's present sequence number.
    pub now_sequence: u64,
    /// Blocks that it held.
    pub used_blocks: u64,
    /// Of those, blocks that were live to the end, and were moved.
    pub live_blocks: u64,
}

impl ReclaimedSegment {
    /// From its opening to its reclaim.
    pub fn lifetime(&self) -> u64 {
        self.now_sequence.saturating_sub(self.opened_sequence)
    }
}

/// What a policy is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The most streams that it may use; a device that can have few zones open allows few. At
    /// least 1.
    pub streams_max: u8,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Segments of the store.
    pub segments: u64,
    /// The most memory that it may hold, in bytes, beyond a few hundred.
    pub memory_bytes_max: u64,
}

impl Shape {
    /// Blocks of the store.
    pub fn blocks(&self) -> u64 {
        self.segments.saturating_mul(self.segment_blocks)
    }
}

impl Default for Shape {
    /// Eight streams, a thousand segments of 16 MiB, and 16 MiB of memory.
    fn default() -> Self {
        let memory_bytes_max = 16 << 20;
        Shape { streams_max: 8, segment_blocks: 4096, segments: 1024, memory_bytes_max }
    }
}
