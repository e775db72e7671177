//! A store at a glance.

use serde::{Deserialize, Serialize};

use crate::report::{LatencySummary, ReadError, ReadErrorCounts};

/// A store at a glance. All counts are since it was opened.
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
    /// Bytes written to the device: the term above in the write amplification.
    pub device_write_bytes: u64,
    /// Whole blocks that clients wrote, in bytes: the term below in the write amplification.
    pub accepted_write_bytes: u64,
    /// Device writes by cause: client log.
    pub log_write_bytes: u64,
    /// Device writes by cause: relocation.
    pub reclaim_write_bytes: u64,
    /// Device writes by cause: map and checkpoints.
    pub map_write_bytes: u64,
    /// `device_write_bytes / accepted_write_bytes`; 0 before the first write.
    pub write_amplification: f64,
    /// Where the bytes are.
    pub space: SpaceStats,
    /// Bytes in each segment.
    pub segment_bytes: u64,
    /// Segments opened.
    pub segments_allocated: u64,
    /// Segments that were in use and became free, the map's too.
    pub segments_freed: u64,
    /// Free segments whose bytes were given back to what the store lies on: a sparse file has holes there.
    #[serde(default)]
    pub segments_released: u64,
    /// Bytes that this gave back: what was a hole already gives nothing.
    #[serde(default)]
    pub released_bytes: u64,
    /// Bytes that the store takes of what it lies on, where that is known and may be less than its size.
    #[serde(default)]
    pub held_bytes: Option<u64>,
    /// Segments that became free or will with the next checkpoint.
    pub segments_reclaimed: u64,
    /// Segments chosen for reclaim for the sake of wear alone; some may have been passed over.
    pub segments_levelled: u64,
    /// Bytes that relocation moved.
    pub moved_bytes: u64,
    /// Walks of the map.
    pub reclaim_cycles: u64,
    /// Mappings that the walks saw.
    pub mappings_scanned: u64,
    /// Processor time of the walks, on all threads.
    pub scan_cpu_ns: u64,
    /// Reclaim's share of bandwidth now, 0 to 1.
    pub reclaim_share: f64,
    /// How scarce space is, 0 to 1.
    pub pressure: f64,
    /// Whether clients wait for reclaim now.
    pub panic: bool,
    /// Times that clients had to wait for reclaim.
    pub panics: u64,
    /// Leaves of the map that relocation rewrote, each once for all that it moved of them.
    pub leaves_repointed: u64,
    /// Copy-forwards that failed; the old data stayed.
    pub copy_forward_failures: u64,
    /// Times that a client's write waited for a segment.
    pub room_waits: u64,
    /// Requests of clients that were refused since no space was left.
    pub room_refusals: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Flushes of the device.
    pub device_flushes: u64,
    /// Records replayed when the store was opened.
    pub replayed_records: u64,
    /// Records found past the first gap, never acknowledged as durable.
    pub dropped_records: u64,
    /// Times that the root was written to say how far flushes had promised, once the log was quiet.
    #[serde(default)]
    pub promises: u64,
    /// Times that a change was acknowledged only once it was written, since the warm log had no room for it.
    #[serde(default)]
    pub outlive_waits: u64,
    /// Times that what was read did not match its checksum, for whatever purpose.
    pub checksum_errors: u64,
    /// Of those, how many for which purpose.
    #[serde(default)]
    pub checksum_errors_by: ReadErrorCounts,
    /// Reads of the device that failed, for whatever purpose. One that is tried again counts again.
    #[serde(default)]
    pub read_errors: u64,
    /// Of those, how many for which purpose.
    #[serde(default)]
    pub read_errors_by: ReadErrorCounts,
    /// The last of both.
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
    /// All of that memory, and unwritten data.
    pub memory_bytes: u64,
    /// What it may be (`memory_bytes` of the options).
    pub memory_budget_bytes: u64,
    /// Memory of versions of map nodes that a mark or a checkpoint still holds.
    pub frozen_bytes: u64,
    /// Memory of reclaim: the reverse index of the candidates.
    pub index_bytes: u64,
    /// Memory of reclaim: the live bits of the last mark.
    pub mark_bytes: u64,
    /// Memory of reclaim: where the blocks of the segments being emptied go.
    pub relocation_bytes: u64,
    /// Memory of buffers for reads and for what clients write: kept, or in use and not counted as
    /// unwritten.
    pub buffer_bytes: u64,
    /// Candidates given up because their reverse index had no room.
    pub candidates_dropped: u64,
    /// Acknowledged data that is not written yet.
    pub dirty_bytes: u64,
    /// The placement policy in force, with the parameters that differ from their defaults. It is not the one that
    /// was asked for if the device can have too few zones open for that one, or the store has too few segments.
    pub placement: String,
    /// Streams that its classes have.
    pub placement_streams: u64,
    /// Streams that they would have if more zones could be open, or there were more segments.
    pub placement_streams_wanted: u64,
    /// Streams that clients' writes are spread over as they come; 1 where the policy decides for each block.
    pub client_streams: u64,
    /// Memory that it holds.
    pub placement_bytes: u64,
    /// Bytes that went to another stream than it said, because space was short.
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
    /// Why reclaim wins no space: the map cannot be marked, or what there is to win is where the device fails. Told of
    /// until that is tried again.
    pub reclaim_failed: Option<String>,
    /// Why the store takes no changes any more; not where it was opened for reading only.
    pub failed: Option<String>,
}

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
