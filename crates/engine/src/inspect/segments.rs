//! The segments of a store, one by one.

use mjolnir_device::{Device, Runtime};
use mjolnir_units::ZoneId;

use crate::drive::Engine;
use crate::space::{MAP_STREAM, RECLAIM_STREAM, SegmentState};

/// A segment at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its zone.
    pub zone: ZoneId,
    /// What fills it.
    pub content: SegmentContent,
    /// The number of the stream that it is of.
    pub stream: u8,
    /// Whether it is still appended to; else it is sealed.
    pub open: bool,
    /// Blocks of payload in it, live or not.
    pub payload_blocks: u64,
    /// Of those, live ones as the last mark counted them; `None` if it was not sealed then.
    pub live_blocks: Option<u64>,
}

/// What fills a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentContent {
    /// The map and its table.
    Map,
    /// Blocks that reclaim moved.
    Relocated,
    /// What clients wrote.
    Written,
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Every segment that is being filled or sealed, in order of zones.
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
