//! A group that is being built.

use bytes::Bytes;

use crate::format::record::Record;

/// Consecutive payload: each buffer with the address of its first block.
pub(crate) type PayloadBuffers = Vec<(u64, Bytes)>;

pub(crate) struct Builder {
    pub offset: u32,
    /// The block at which the group must end: the footer follows.
    pub limit: u32,
    pub records: Vec<(u64, Record)>,
    pub record_bytes: usize,
    pub checksums: Vec<u32>,
    pub payload: PayloadBuffers,
    pub serial: u64,
    /// Whether a task may wait for the group: it holds numbered records, or blocks of the map.
    /// Reclaim itself sends the groups with moved blocks, when they are full: short groups would
    /// fill segments with headers.
    pub awaited: bool,
    /// Payload blocks that reclaim moved.
    pub moved_blocks: u32,
}

impl Builder {
    /// An empty group in front of block `limit`, with room for one like `last`.
    pub(crate) fn new(offset: u32, limit: u32, serial: u64, last: Size) -> Self {
        Builder {
            offset,
            limit,
            records: Vec::with_capacity(last.records),
            record_bytes: 0,
            checksums: Vec::with_capacity(last.blocks),
            payload: Vec::with_capacity(last.buffers),
            serial,
            awaited: false,
            moved_blocks: 0,
        }
    }

    pub(crate) fn first_sequence(&self) -> Option<u64> {
        self.records.iter().map(|(sequence, _)| *sequence).find(|sequence| *sequence != 0)
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            records: self.records.len(),
            blocks: self.checksums.len(),
            buffers: self.payload.len(),
        }
    }
}

/// A group's size, to preallocate the next one of its stream, which will be about as large as the
/// last or an earlier one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    records: usize,
    blocks: usize,
    buffers: usize,
}

impl Size {
    /// Short groups come in between, such as the last of a victim.
    pub(crate) fn or_three_quarters_of(self, last: Size) -> Size {
        let most = |now: usize, last: usize| now.max(last * 3 / 4);
        Size {
            records: most(self.records, last.records),
            blocks: most(self.blocks, last.blocks),
            buffers: most(self.buffers, last.buffers),
        }
    }
}
