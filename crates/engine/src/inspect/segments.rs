//! Describes the segments of a store, one by one.

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::space::{MAP_STREAM, RECLAIM_STREAM, SegmentState};

/// A summary of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its zone.
    pub zone: ZoneId,
    /// Its content.
    pub content: SegmentContent,
    /// The number of its stream.
    pub stream: u8,
    /// Whether the segment is open; otherwise it is sealed.
    pub open: bool,
    /// Blocks of payload in it, live or not.
    pub payload_blocks: u64,
    /// Of those, the live blocks by the last mark; `None` if the segment was not sealed then.
    pub live_blocks: Option<u64>,
}

/// The content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentContent {
    /// The map and its table.
    Map,
    /// Blocks that reclaim moved.
    Relocated,
    /// Blocks that clients wrote.
    Written,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Every open or sealed segment, in order of zones.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.state();
        let in_use = state.space.zones().filter(|(_, segment)| {
            matches!(segment.state, SegmentState::Open | SegmentState::Sealed)
        });
        in_use
            .map(|(zone, segment)| SegmentInfo {
                zone,
                content: match segment.stream {
                    MAP_STREAM => SegmentContent::Map,
                    RECLAIM_STREAM => SegmentContent::Relocated,
                    _ => SegmentContent::Written,
                },
                stream: segment.stream,
                open: segment.state == SegmentState::Open,
                payload_blocks: segment.payload.into(),
                live_blocks: segment.live.map(u64::from),
            })
            .collect()
    }
}
