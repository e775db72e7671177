//! A store at a glance.

use serde::{Deserialize, Serialize};

use crate::report::{LatencySummary, ReadError, ReadErrorCounts};

/// A store at a glance. All counts start at its opening.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Seconds since opening.
    pub uptime_s: f64,
    /// Volumes, and snapshots.
    pub volumes: u64,
    /// Snapshots of all volumes.
    pub snapshots: u64,
    /// Bytes that clients read.
    pub client_read_bytes: u64,
    /// Bytes that clients wrote.
    pub client_write_bytes: u64,
    /// Bytes read from the device, reclaim's included.
    pub device_read_bytes: u64,
    /// Bytes written to the device: the numerator of the write amplification.
    pub device_write_bytes: u64,
    /// Whole blocks that clients wrote, in bytes: the denominator of the write amplification.
    pub accepted_write_bytes: u64,
    /// Device writes by cause: client log.
    pub log_write_bytes: u64,
    /// Device writes by cause: relocation.
    pub reclaim_write_bytes: u64,
    /// Device writes by cause: map and checkpoints.
    pub map_write_bytes: u64,
    /// `device_write_bytes / accepted_write_bytes`; 0 before the first write.
    pub write_amplification: f64,
    /// The use of the device's bytes.
    pub space: SpaceStats,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
    /// Segments opened.
    pub segments_allocated: u64,
    /// Segments that became free after use, the map's included.
    pub segments_freed: u64,
    /// Segments that the device failed to write to: those out of use, and those that are to be
    /// emptied.
    #[serde(default)]
    pub segments_bad: u64,
    /// Of those, the segments that still hold data.
    #[serde(default)]
    pub segments_bad_in_use: u64,
    /// Appends that the device failed.
    #[serde(default)]
    pub write_errors: u64,
    /// Groups of records that were written elsewhere because of that.
    #[serde(default)]
    pub groups_logged_again: u64,
    /// What the device said when it failed to write, the last time.
    #[serde(default)]
    pub last_write_error: Option<String>,
    /// What the device lacks at present, while requests wait for it or are refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outage: Option<String>,
    /// Times that the device took nothing for a while.
    #[serde(default)]
    pub outages: u64,
    /// Free segments whose bytes went back to the store's medium: a sparse file has holes there.
    #[serde(default)]
    pub segments_released: u64,
    /// Bytes that went back this way; existing holes do not count.
    #[serde(default)]
    pub released_bytes: u64,
    /// Bytes that the store occupies on its medium, if known and possibly less than its size.
    #[serde(default)]
    pub held_bytes: Option<u64>,
    /// Segments given up because nothing refers to them: free, or free with the next checkpoint.
    pub segments_reclaimed: u64,
    /// Segments chosen for reclaim for wear alone; reclaim may have skipped some of them.
    pub segments_levelled: u64,
    /// Bytes that relocation moved.
    pub moved_bytes: u64,
    /// Walks of the map.
    pub reclaim_cycles: u64,
    /// Mappings that the walks visited.
    pub mappings_scanned: u64,
    /// Processor time of the walks, on all threads.
    pub scan_cpu_ns: u64,
    /// Reclaim's share of bandwidth now, 0 to 1.
    pub reclaim_share: f64,
    /// The scarcity of space, 0 to 1.
    pub pressure: f64,
    /// Whether clients wait for reclaim now.
    pub panic: bool,
    /// Times that clients had to wait for reclaim.
    pub panics: u64,
    /// Leaves of the map that relocation rewrote, each once for all its moved blocks.
    pub leaves_repointed: u64,
    /// Copy-forwards that failed; the old data stayed.
    pub copy_forward_failures: u64,
    /// Times that a client's write waited for a segment.
    pub room_waits: u64,
    /// Requests of clients refused for lack of space.
    pub room_refusals: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Flushes of the device.
    pub device_flushes: u64,
    /// Records replayed when the store was opened.
    pub replayed_records: u64,
    /// Records found past the first gap and never acknowledged as durable.
    pub dropped_records: u64,
    /// Writes of the root that record how far flushes had promised, once the log was quiet.
    #[serde(default)]
    pub promises: u64,
    /// Changes acknowledged only once written, because the warm log had no room for them.
    #[serde(default)]
    pub outlive_waits: u64,
    /// Checksum mismatches of reads, for any purpose.
    pub checksum_errors: u64,
    /// Of those, how many for which purpose.
    #[serde(default)]
    pub checksum_errors_by: ReadErrorCounts,
    /// Failed reads of the device, for any purpose. A retry that fails counts again.
    #[serde(default)]
    pub read_errors: u64,
    /// Of those, how many for which purpose.
    #[serde(default)]
    pub read_errors_by: ReadErrorCounts,
    /// The last failed read or mismatch.
    #[serde(default)]
    pub last_read_error: Option<ReadError>,
    /// Map nodes, in memory or not.
    pub map_nodes: u64,
    /// Leaves of the map in memory.
    pub map_leaves: u64,
    /// Memory of the map's nodes.
    pub map_bytes: u64,
    /// Memory of the map's node table.
    pub map_table_bytes: u64,
    /// Memory of checksums.
    pub checksum_bytes: u64,
    /// The memory of map, node table and checksums, and unwritten data.
    pub memory_bytes: u64,
    /// The limit of `memory_bytes` (`memory_bytes` of the options).
    pub memory_budget_bytes: u64,
    /// Memory of versions of map nodes that a mark or a checkpoint still holds.
    pub frozen_bytes: u64,
    /// Memory of reclaim: the reverse index of the candidates.
    pub index_bytes: u64,
    /// Memory of reclaim: the live bits of the last mark.
    pub mark_bytes: u64,
    /// Memory of reclaim: the new addresses of relocated blocks.
    pub relocation_bytes: u64,
    /// Memory of buffers for reads and client writes: kept, or in use and not counted as unwritten.
    pub buffer_bytes: u64,
    /// Candidates given up for lack of room for their reverse index.
    pub candidates_dropped: u64,
    /// Acknowledged data not written yet.
    pub dirty_bytes: u64,
    /// The placement policy in force, with the parameters that differ from their defaults. It is not the one that
    /// was asked for if the device can have too few zones open for that one, or the store has too few segments.
    pub placement: String,
    /// Streams of the policy's classes.
    pub placement_streams: u64,
    /// Streams that the classes would have with more open zones or more segments.
    pub placement_streams_wanted: u64,
    /// Streams that clients' writes are spread over in order of arrival; 1 if the policy decides
    /// for each block.
    pub client_streams: u64,
    /// Memory of the policy.
    pub placement_bytes: u64,
    /// Bytes that went to another stream than the policy chose, because space was short.
    pub displaced_bytes: u64,
    /// Map nodes read back from media.
    pub nodes_loaded: u64,
    /// Reads.
    pub read_latency: LatencySummary,
    /// Writes.
    pub write_latency: LatencySummary,
    /// Flushes.
    pub flush_latency: LatencySummary,
    /// Trims.
    pub trim_latency: LatencySummary,
    /// Atomic vectors, clones and moves.
    pub atomic_latency: LatencySummary,
    /// Why reclaim wins no space: the map cannot be marked, or the space to win is where the device
    /// fails. Kept until the next try.
    pub reclaim_failed: Option<String>,
    /// Why the store accepts no more changes; `None` for a store opened for reading only.
    pub failed: Option<String>,
}

/// The use of the device's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceStats {
    /// All segments.
    pub total_bytes: u64,
    /// Referenced client data, as counted by the last mark.
    pub live_bytes: u64,
    /// Client data in segments filled since the last mark: its live part is not counted yet.
    #[serde(default)]
    pub uncounted_bytes: u64,
    /// Unreferenced client data, as counted by marks, and superseded images of the map.
    pub stale_bytes: u64,
    /// The map, its table and manifests, records and footers.
    pub metadata_bytes: u64,
    /// Room in segments sealed before they were full, for example at a close. It comes back when
    /// they are reclaimed.
    #[serde(default)]
    pub unused_bytes: u64,
    /// Segments being filled, the map's images in them excluded.
    pub open_bytes: u64,
    /// Segments that become free with the next checkpoint.
    pub retiring_bytes: u64,
    /// Segments out of use because the device failed to write to them.
    #[serde(default)]
    pub bad_bytes: u64,
    /// Free segments.
    pub free_bytes: u64,
    /// Free segments reserved for reclaim and checkpoints.
    pub reserved_bytes: u64,
    /// The part of the segments that is not free, 0 to 1.
    pub utilization: f64,
    /// Set well before space runs out: advice.
    pub low: bool,
}
