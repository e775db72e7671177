//! What the device's space is used for.

use mjolnir_units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};

use crate::space::{MAP_STREAM, SegmentState};

/// Where the bytes of the device are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceStats {
    /// All segments.
    pub total_bytes: u64,
    /// Client data that something refers to, as the last mark counted it.
    pub live_bytes: u64,
    /// Client data in segments that were filled since: no mark has told yet what of it is live.
    #[serde(default)]
    pub uncounted_bytes: u64,
    /// Client data that nothing refers to, as far as marks have counted, and what the map left
    /// behind.
    pub stale_bytes: u64,
    /// The map, its table and manifests, records and footers.
    pub metadata_bytes: u64,
    /// Room in segments that were sealed before they were full, as when a store is closed. It comes
    /// back when they are reclaimed.
    #[serde(default)]
    pub unused_bytes: u64,
    /// Segments being filled, but for what of the map lies in them.
    pub open_bytes: u64,
    /// Segments that become free with the next checkpoint.
    pub retiring_bytes: u64,
    /// Free segments.
    pub free_bytes: u64,
    /// Of those, what is kept for reclaim and checkpoints.
    pub reserved_bytes: u64,
    /// Part of the segments that is not free.
    pub utilization: f64,
    /// Set well before space runs out: what to do.
    pub low: bool,
}

impl crate::drive::State {
    pub(crate) fn space_stats(&self) -> SpaceStats {
        let segment_bytes = self.space.zone_blocks * BLOCK_SIZE;
        let mut stats = SpaceStats {
            total_bytes: self.space.segments.len() as u64 * segment_bytes,
            utilization: self.space.utilization(),
            ..SpaceStats::default()
        };
        for (_, segment) in self.space.zones() {
            match segment.state {
                SegmentState::Free => stats.free_bytes += segment_bytes,
                SegmentState::Open => {
                    let map = if segment.stream == MAP_STREAM { segment.map_bytes } else { 0 };
                    stats.metadata_bytes += map;
                    stats.open_bytes += segment_bytes - map.min(segment_bytes);
                }
                SegmentState::Retiring => stats.retiring_bytes += segment_bytes,
                SegmentState::Sealed => {
                    let used = (u64::from(segment.used) * BLOCK_SIZE).min(segment_bytes);
                    stats.unused_bytes += segment_bytes - used;
                    if segment.stream == MAP_STREAM {
                        stats.metadata_bytes += segment.map_bytes;
                        stats.stale_bytes += used - segment.map_bytes.min(used);
                        continue;
                    }
                    let payload = (u64::from(segment.payload) * BLOCK_SIZE).min(used);
                    match segment.live.map(|live| (u64::from(live) * BLOCK_SIZE).min(payload)) {
                        Some(live) => {
                            stats.live_bytes += live;
                            stats.stale_bytes += payload - live;
                        }
                        None => stats.uncounted_bytes += payload,
                    }
                    stats.metadata_bytes += used - payload;
                }
            }
        }
        let reserved = (self.space.reserve() as u64 * segment_bytes).min(stats.free_bytes);
        stats.reserved_bytes = reserved;
        let left_behind = stats.stale_bytes + stats.unused_bytes + stats.retiring_bytes;
        // Once space is scarce, a mark tells soon what of it is live: before that it is no alarm.
        let winnable = stats.free_bytes - reserved + left_behind + stats.uncounted_bytes;
        stats.low = winnable * 10 < stats.total_bytes;
        stats
    }
}
