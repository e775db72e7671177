//! Statistics of the device's space by use.

use mjolnir_store::report::SpaceStats;
use mjolnir_units::BLOCK_SIZE;

use crate::space::{MAP_STREAM, SegmentState};

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
                SegmentState::Bad => stats.bad_bytes += segment_bytes,
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
        // Uncounted payload counts as reclaimable: once space is scarce, a mark soon counts its
        // live blocks, and before that there is no alarm.
        let winnable = stats.free_bytes - reserved + left_behind + stats.uncounted_bytes;
        stats.low = winnable * 10 < stats.total_bytes;
        stats
    }
}
