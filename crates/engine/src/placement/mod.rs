//! Which stream clients' blocks and relocated ones go to: the placement policy's choice, fitted to
//! the streams that there are.
//!
//! The map, relief and a last resort of reclaim have streams of their own, which no policy decides.
//! Where a policy sends all of clients' blocks to one class and all of reclaim's to another, as
//! `apart` does, the latter has that resort for its stream. Any other policy gets a stream for each of
//! its classes: class 0 has `CLIENT_STREAM`, and so on.
//!
//! A policy is asked for the blocks of a source unless it fixed where they go. If it is asked for
//! clients' blocks, it is told which class and about how old the version is that a write replaces. If
//! it fixed them, nothing is looked up for a write; clients' writes are then spread over the stream of
//! their class and the streams that follow those of all classes.
//!
//! Where space is short, keeping classes apart would cost what is left. Clients then fill what any
//! class has open, and reclaim goes to its resort: so a policy opens segments only as clients may,
//! and the reserves stay what they are. What reclaim put into its resort keeps its class: see
//! [`displaced`].

mod displaced;
mod room;
#[cfg(test)]
mod tests;

use mjolnir_device::DeviceInfo;
use mjolnir_map::Run;
use mjolnir_policy::placement::{
    BlockView, HostReclaimApart, PlacementPolicy, Previous, ReclaimedSegment, Shape, Source, Stream,
};
use mjolnir_policy::{PolicyError, placement};
use mjolnir_units::{Lba, Pba, TreeId};

use crate::format::group::GROUP_BLOCKS_MAX;
use crate::options::OpenOptions;
use crate::placement::displaced::Displaced;
use crate::space::{CLIENT_STREAM, RECLAIM_STREAM, Segment, Space};

/// The most streams that a policy gets, and that clients' writes are spread over.
pub const STREAMS_MAX: u8 = 8;

/// A store has so many segments for each stream, or classes share one: what is open cannot be
/// reclaimed.
const SEGMENTS_A_STREAM: u32 = 8;

/// The part of the memory budget that a policy may take: one in so many.
const MEMORY_SHARE: u64 = 64;

/// The part that the classes of displaced blocks may take: one in so many.
const DISPLACED_SHARE: u64 = 256;

/// Relocated blocks that lay and were written side by side stay so, by so many: one word of a leaf may
/// stand for all of a group, and be torn into no more than it has room for.
const TOGETHER_BLOCKS: u64 = 16;

/// The policy, and how its classes become streams.
pub(crate) struct Placement {
    policy: Box<dyn PlacementPolicy>,
    /// Its name, with the parameters that differ from their defaults.
    name: String,
    /// The class of all of clients' blocks; `None` if the policy is asked for each.
    client: Option<Stream>,
    /// The class of all of reclaim's blocks; `None` if the policy is asked for each.
    moved: Option<Stream>,
    /// Classes that have streams of their own, from `CLIENT_STREAM` on.
    classes: u8,
    /// Streams for clients and the policy, from `CLIENT_STREAM` on: those of the classes, then those
    /// that clients' writes are spread over besides.
    streams: u8,
    /// Streams that the policy would use if it could.
    pub wanted: u8,
    /// Blocks that went elsewhere than the policy said, for want of space.
    pub displaced_blocks: u64,
    /// Classes of those among them that lie in reclaim's own stream.
    displaced: Displaced,
    /// The blocks of the write under way, and what they replace.
    views: Vec<BlockView>,
    runs: Vec<Run>,
    /// What was relocated last.
    tail: Option<Tail>,
}

/// Relocated blocks that keep together.
struct Tail {
    /// Whatever would follow them.
    next: Moved,
    /// Where they were to go.
    wanted: u8,
    /// How many they are.
    blocks: u64,
}

impl Placement {
    /// The policy that the options name, for that device.
    pub fn new(options: &OpenOptions, info: &DeviceInfo) -> Result<Self, PolicyError> {
        let text = placement::shortest(&options.placement)?;
        let make = |shape: &Shape| placement::by_name_for(&text, shape);
        let mut made = Self::made_by(make, options, info)?;
        // Unless it is another one.
        if text.split(':').next() == Some(&made.name) {
            made.name = text;
        }
        Ok(made)
    }

    /// A policy that is made for a shape.
    fn made_by<E>(
        make: impl Fn(&Shape) -> Result<Box<dyn PlacementPolicy>, E>,
        options: &OpenOptions,
        info: &DeviceInfo,
    ) -> Result<Self, E> {
        // One zone open for each stream at most, or they would wait for each other.
        let others = u32::from(CLIENT_STREAM);
        let zones = info.open_zones_max.map_or(u32::MAX, |max| max.saturating_sub(others)).max(1);
        let shape = |streams_max: u8| Shape {
            streams_max,
            segment_blocks: info.zone_blocks,
            segments: info.zones.into(),
            memory_bytes_max: options.memory_bytes / MEMORY_SHARE,
        };
        let wanted = make(&shape(u8::MAX))?;
        let fixed = Source::ALL.map(|source| wanted.fixed(source));
        let (wanted, one) = (wanted.streams(), matches!(fixed, [Some(a), Some(b)] if a == b));
        let most = zones.min((info.zones / SEGMENTS_A_STREAM).max(1));
        let most = most.min(STREAMS_MAX.into()) as u8;
        let mut policy = make(&shape(most.max(2)))?;
        let apart = matches!(fixed, [Some(a), Some(b)] if a != b);
        if most < 2 && !one && !apart {
            // One stream, and reclaim's own: that is `apart`.
            policy = Box::new(HostReclaimApart::default());
        }
        let [client, moved] = Source::ALL.map(|source| policy.fixed(source));
        let classes = if client.and(moved).is_some() { 1 } else { policy.streams() };
        let spread = match client {
            Some(_) => u32::from(options.client_streams.clamp(1, STREAMS_MAX)),
            None => 1,
        };
        let spread = spread.min(zones.saturating_sub(u32::from(classes) - 1)).max(1) as u8;
        let group = if client.is_none() { GROUP_BLOCKS_MAX as usize } else { 0 };
        Ok(Placement {
            name: policy.name().to_owned(),
            policy,
            client,
            moved,
            classes,
            streams: classes + spread - 1,
            wanted,
            displaced_blocks: 0,
            displaced: Displaced::within(options.memory_bytes / DISPLACED_SHARE),
            views: Vec::with_capacity(group),
            runs: Vec::new(),
            tail: None,
        })
    }

    /// Streams for clients and the policy, from `CLIENT_STREAM` on.
    pub fn streams(&self) -> u8 {
        self.streams
    }

    /// Streams that clients' writes are spread over as they come.
    pub fn spread(&self) -> u8 {
        self.streams - self.classes + 1
    }

    /// Streams that the policy's classes have.
    pub fn classes(&self) -> u8 {
        self.policy.streams()
    }

    /// The name of the policy in force, with the parameters that differ from their defaults.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Memory that it holds.
    pub fn bytes(&self) -> u64 {
        let scratch = self.views.capacity() * size_of::<BlockView>();
        (self.policy.memory_bytes() + scratch) as u64 + self.displaced.bytes()
    }

    /// Streams that one victim's blocks may go to.
    pub fn reclaim_streams(&self) -> u8 {
        if self.moved.is_some() { 1 } else { self.policy.streams() }
    }

    /// The first stream of clients' blocks: that of their class, if they have one.
    pub fn first_of_clients(&self) -> u8 {
        CLIENT_STREAM + self.client.map_or(0, |class| self.index_of(class))
    }

    /// The number of a class among those that have streams of their own.
    fn index_of(&self, class: Stream) -> u8 {
        if self.classes == 1 { 0 } else { class.0 }
    }

    /// The stream of a class. Where clients' blocks are all of one, neighbours share a stream.
    fn stream_of(&self, class: Stream, source: Source, tree: TreeId, lba: u64) -> u8 {
        let apart = self.moved.is_some() && self.client.is_some_and(|client| client != class);
        if apart && source == Source::Reclaim {
            return RECLAIM_STREAM;
        }
        let first = CLIENT_STREAM + self.index_of(class);
        if self.client != Some(class) {
            return first;
        }
        let region = (lba >> 10).wrapping_add(u64::from(tree.0) * 7);
        match (region % u64::from(self.spread())) as u8 {
            0 => first,
            region => CLIENT_STREAM + self.classes + region - 1,
        }
    }

    /// The class that a stream is for; `None` where a policy did not choose it, or where its blocks are of
    /// several.
    fn class_of(&self, stream: u8) -> Option<Stream> {
        if stream == RECLAIM_STREAM {
            return self.moved;
        }
        let index = stream.checked_sub(CLIENT_STREAM)?;
        match self.client {
            Some(class) if self.classes == 1 => Some(class),
            Some(class) if (self.classes..self.streams).contains(&index) => Some(class),
            _ => (index < self.classes).then_some(Stream(index)),
        }
    }

    /// The class of the block at `offset` of a segment, as far as it is known.
    pub fn class_at(&self, segment: &Segment, offset: u64) -> Option<Stream> {
        match self.class_of(segment.stream) {
            None if segment.stream == RECLAIM_STREAM => {
                self.displaced.class_at(segment.incarnation, offset)
            }
            class => class,
        }
    }

    /// Tells the policy of a segment that is given up, or is about to be. `opened` is used where
    /// the segment itself does not know: it was opened before the store was.
    pub fn reclaimed(&mut self, segment: &Segment, live: u64, opened: Option<u64>, now: u64) {
        let Some(stream) = self.class_of(segment.stream) else { return };
        let Some(opened_sequence) = segment.opened.or(opened) else { return };
        self.policy.reclaimed(&ReclaimedSegment {
            stream,
            opened_sequence,
            sealed_sequence: segment.sealed,
            now_sequence: now,
            used_blocks: segment.payload.into(),
            live_blocks: live,
        });
    }

    /// Where a run of relocated blocks should go, of which the first is `block`. They were written
    /// together, so they stay together, and with what came just before them if that is little.
    pub fn of_moved(&self, block: &Moved, now: u64) -> u8 {
        let class = match self.moved {
            Some(class) => class,
            None => match self.tail_before(block) {
                Some(tail) => return tail.wanted,
                None => self.policy.place(&self.moved_view(block, now)),
            },
        };
        self.stream_of(class, Source::Reclaim, block.tree, block.lba)
    }

    /// Relocated blocks were appended at `to` in `stream`, where `wanted` was asked for.
    pub fn moved(
        &mut self,
        space: &mut Space,
        block: &Moved,
        (to, blocks): (Pba, u32),
        (wanted, stream): (u8, u8),
        now: u64,
    ) {
        if stream != wanted {
            self.displaced_blocks += u64::from(blocks);
        }
        self.note_births(space, to, blocks, block.birth, true);
        if self.client.and(self.moved).is_some() {
            return;
        }
        let before = self.tail_before(block).map_or(0, |tail| tail.blocks);
        let next = block.followed_by(blocks.into());
        self.tail = Some(Tail { next, wanted, blocks: before + u64::from(blocks) });
        // In its resort, too, reclaim keeps the class.
        let Some(class) = self.class_of(wanted) else { return };
        if stream != wanted && self.moved.is_none() {
            self.displaced.note(space, to, blocks, class);
        }
        for index in 0..u64::from(blocks) {
            let view = self.moved_view(&block.followed_by(index), now);
            self.policy.wrote(&view, class);
        }
    }

    /// What was relocated last, if the block is to keep together with it.
    fn tail_before(&self, block: &Moved) -> Option<&Tail> {
        self.tail.as_ref().filter(|tail| {
            let Moved { tree, lba, at, .. } = tail.next;
            tail.blocks < TOGETHER_BLOCKS && (tree, lba, at) == (block.tree, block.lba, block.at)
        })
    }

    fn moved_view(&self, block: &Moved, now: u64) -> BlockView {
        BlockView {
            source: Source::Reclaim,
            volume: block.tree,
            lba: Lba(block.lba),
            now_sequence: now,
            previous: block.class.map(|stream| Previous { stream, birth_sequence: block.birth }),
        }
    }
}

/// A relocated block, as a policy may see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub tree: TreeId,
    pub lba: u64,
    /// Where it lies.
    pub at: Pba,
    /// Its class, as far as it is known.
    pub class: Option<Stream>,
    pub birth: u64,
}

impl Moved {
    /// So many blocks on, in the same run.
    fn followed_by(self, blocks: u64) -> Self {
        Moved { lba: self.lba + blocks, at: self.at.plus(blocks), ..self }
    }
}
