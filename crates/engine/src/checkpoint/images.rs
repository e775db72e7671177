//! Packs images of map nodes and of node-table pages, and writes them to the map's stream.

use std::sync::Arc;

use mjolnir_device::{AlignedBuf, Buffers, Device, Runtime};
use mjolnir_map::{Form, Node, NodeId, with_one_base};
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};

use crate::drive::Engine;
use crate::format::place::{GRAIN, Place};
use crate::space::{Claim, Hurdle, MAP_STREAM};

/// Images packed one after another.
pub(crate) struct Images {
    buffer: AlignedBuf,
    filled: usize,
    spans: Vec<Span>,
}

/// The bytes that hold one image.
struct Span {
    id: NodeId,
    /// Its first byte and its length.
    from: u64,
    bytes: u64,
    /// Whether it refers to an earlier image, so that both must lie in one append.
    joined: bool,
}

impl Span {
    fn end(&self) -> u64 {
        self.from + self.bytes
    }
}

/// The padded size of an image.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(GRAIN as usize)
}

impl Images {
    /// A buffer for images of these sizes, in bytes.
    pub fn of(buffers: &Buffers, sizes: impl Iterator<Item = usize>) -> Self {
        let bytes: usize = sizes.map(padded).sum();
        let mut buffer = buffers.take(bytes.next_multiple_of(BLOCK_BYTES));
        buffer.as_mut()[bytes..].fill(0);
        Images { buffer, filled: 0, spans: Vec::new() }
    }

    /// Packs the next image, `bytes` long.
    pub fn add(&mut self, id: NodeId, bytes: usize, encode: impl FnOnce(&mut [u8])) {
        let room = &mut self.buffer.as_mut()[self.filled..self.filled + padded(bytes)];
        let (image, padding) = room.split_at_mut(bytes);
        encode(image);
        padding.fill(0);
        let (from, bytes) = (self.filled as u64, room.len() as u64);
        self.spans.push(Span { id, from, bytes, joined: false });
        self.filled += bytes as usize;
    }

    /// Packs the next image, which refers to an earlier one.
    fn add_joined(&mut self, id: NodeId, bytes: usize, encode: impl FnOnce(&mut [u8])) {
        self.add(id, bytes, encode);
        self.spans.last_mut().expect("it was just added").joined = true;
    }

    /// The images of nodes. Nodes with common words share one base image.
    pub fn of_nodes(buffers: &Buffers, nodes: &[(NodeId, Arc<Node>)]) -> Self {
        let mut groups = Vec::new();
        let mut rest = nodes;
        while !rest.is_empty() {
            let (group, after) = rest.split_at(with_one_base(rest));
            groups.push(group);
            rest = after;
        }
        let form = |place: usize, group: usize, back: usize| match (place, group) {
            (_, 1) => Form::Whole,
            (0, _) => Form::WithBase,
            _ => Form::AfterBase { back: back as u32 },
        };
        let sizes = groups.iter().flat_map(|group| {
            let forms = (0..).map(|place| form(place, group.len(), 1));
            group.iter().zip(forms).map(|((_, node), form)| node.image_bytes_as(form))
        });
        let mut images = Images::of(buffers, sizes);
        for group in groups {
            let base = images.filled + group[0].1.base_at();
            for (place, (id, node)) in group.iter().enumerate() {
                let form = form(place, group.len(), images.filled.saturating_sub(base));
                let (bytes, encode) = (node.image_bytes_as(form), |out: &mut [u8]| {
                    node.encode_as(*id, form, out);
                });
                match place {
                    0 => images.add(*id, bytes, encode),
                    _ => images.add_joined(*id, bytes, encode),
                }
            }
        }
        images
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Writes images to the map's stream, and returns their places. They can be read at once, and
    /// are durable with the next flush.
    pub(crate) async fn write_images(&self, images: Images) -> Result<Vec<(NodeId, Place)>, Error> {
        let Images { buffer, spans, .. } = images;
        let whole = buffer.freeze();
        let mut placed = Vec::with_capacity(spans.len());
        // An image and the base that it refers to never straddle two appends: each append takes as
        // many whole images, with all that refer to them, as fit.
        let mut rest = spans.as_slice();
        let mut failures = 0;
        while let Some(Span { from: begin, .. }) = rest.first() {
            let first_block = begin / BLOCK_SIZE;
            let last = rest.last().expect("not empty");
            let wanted = last.end().div_ceil(BLOCK_SIZE) - first_block;
            let (at, taken) = self
                .step(|state| {
                    let (at, fit) = state
                        .log
                        .allocate(&mut state.space, MAP_STREAM, 0, wanted as u32)
                        .map_err(|_| Hurdle::NoFreeSegment(Claim::Map))?;
                    let end = (first_block + u64::from(fit)) * BLOCK_SIZE;
                    let mut taken = rest.iter().take_while(|image| image.end() <= end).count();
                    while taken > 0 && rest.get(taken).is_some_and(|image| image.joined) {
                        taken -= 1;
                    }
                    if taken == 0 {
                        // The first image is longer than the rest of the group, or of the segment.
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
                    let blocks = rest[taken - 1].end().div_ceil(BLOCK_SIZE) - first_block;
                    let from = (first_block * BLOCK_SIZE) as usize;
                    let to = from + (blocks * BLOCK_SIZE) as usize;
                    state.log.push_bare(MAP_STREAM, whole.slice(from..to));
                    Ok((at, taken))
                })
                .await?;
            failures = if taken == 0 { failures + 1 } else { 0 };
            for &Span { id, from, bytes, .. } in &rest[..taken] {
                let within = from - first_block * BLOCK_SIZE;
                let pba = at.plus(within / BLOCK_SIZE);
                placed.push((id, Place { pba, offset: within % BLOCK_SIZE, bytes }));
            }
            rest = &rest[taken..];
        }
        Ok(placed)
    }
}
