//! Images of map nodes, and of pages of the node table, on their way to the map's stream.

use mjolnir_device::{AlignedBuf, Buffers, Device, Runtime};
use mjolnir_map::NodeId;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};

use crate::engine::{Engine, Hurdle};
use crate::node_io::{GRAIN, Place};
use crate::space::{Claim, MAP_STREAM};

/// Images packed one after another.
pub(crate) struct Images {
    buffer: AlignedBuf,
    filled: usize,
    /// Id, first byte, bytes.
    spans: Vec<(NodeId, u64, u64)>,
}

/// The room that an image takes.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(GRAIN as usize)
}

impl Images {
    /// Room for images of these sizes, in bytes.
    pub fn of(buffers: &Buffers, sizes: impl Iterator<Item = usize>) -> Self {
        let bytes: usize = sizes.map(padded).sum();
        let mut buffer = buffers.take(bytes.next_multiple_of(BLOCK_BYTES));
        buffer.as_mut()[bytes..].fill(0);
        Images { buffer, filled: 0, spans: Vec::new() }
    }

    /// Packs the next image, of so many bytes.
    pub fn add(&mut self, id: NodeId, bytes: usize, encode: impl FnOnce(&mut [u8])) {
        let room = &mut self.buffer.as_mut()[self.filled..self.filled + padded(bytes)];
        let (image, padding) = room.split_at_mut(bytes);
        encode(image);
        padding.fill(0);
        self.spans.push((id, self.filled as u64, room.len() as u64));
        self.filled += padded(bytes);
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Writes images to the map's stream; returns where each went. They can be read at once, and
    /// are durable with the next flush.
    pub(crate) async fn write_images(&self, images: Images) -> Result<Vec<(NodeId, Place)>, Error> {
        let Images { buffer, spans, .. } = images;
        let whole = buffer.freeze();
        let mut placed = Vec::with_capacity(spans.len());
        // An image never straddles two appends: each append takes as many whole images as fit.
        let mut rest = spans.as_slice();
        let mut failures = 0;
        while let Some(&(_, begin, _)) = rest.first() {
            let first_block = begin / BLOCK_SIZE;
            let last = rest.last().expect("not empty");
            let wanted = (last.1 + last.2).div_ceil(BLOCK_SIZE) - first_block;
            let (at, taken) = self
                .step(|state| {
                    let (at, fit) = state
                        .log
                        .prepare(&mut state.space, MAP_STREAM, 0, wanted as u32)
                        .map_err(|_| Hurdle::NoRoom(Claim::Map))?;
                    let end = (first_block + u64::from(fit)) * BLOCK_SIZE;
                    let taken = rest.iter().take_while(|(_, from, len)| from + len <= end).count();
                    if taken == 0 {
                        // The first image is longer than what is left of the group, or of the
                        // segment.
                        match failures {
                            0 => state.log.close_group(&mut state.space, MAP_STREAM),
                            1 => state.log.seal_segment(&mut state.space, MAP_STREAM),
                            _ => {
                                return Err(Hurdle::Failed(Error::new(
                                    ErrorKind::Unsupported,
                                    "a node of the map does not fit a segment; the store needs \
                                     larger segments",
                                )));
                            }
                        }
                        return Ok((at, 0));
                    }
                    let (_, from, len) = rest[taken - 1];
                    let blocks = (from + len).div_ceil(BLOCK_SIZE) - first_block;
                    let from = (first_block * BLOCK_SIZE) as usize;
                    let to = from + (blocks * BLOCK_SIZE) as usize;
                    state.log.push_bare(MAP_STREAM, whole.slice(from..to));
                    Ok((at, taken))
                })
                .await?;
            failures = if taken == 0 { failures + 1 } else { 0 };
            for &(id, from, bytes) in &rest[..taken] {
                let within = from - first_block * BLOCK_SIZE;
                let pba = at.plus(within / BLOCK_SIZE);
                placed.push((id, Place { pba, offset: within % BLOCK_SIZE, bytes }));
            }
            rest = &rest[taken..];
        }
        Ok(placed)
    }
}
