//! What the store tells about itself.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::ErrorKind;
use mjolnir_units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};

use crate::drive::Engine;
use crate::inspect::space_stats::SpaceStats;
use crate::report::{LatencySummary, ReadError, ReadErrorCounts};
use crate::space::{MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM};

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
    /// The placement policy in force, with the parameters that differ from their defaults. Another one than was asked for where the device can have too
    /// few zones open for it, or the store has too few segments.
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

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The store at a glance.
    pub fn stats(&self) -> Stats {
        let now = self.runtime().now();
        let mut state = self.state();
        state.map.forget_all_superseded();
        let counters = &state.counters;
        let reclaim = &state.reclaim.counters;
        let (usage, memory) = (state.map.usage(), state.memory());
        let by_stream = |stream: u8| state.log.blocks_written[usize::from(stream)] * BLOCK_SIZE;
        let moved_bytes = state.log.moved_beside_clients * BLOCK_SIZE;
        let log_blocks: u64 = state.log.blocks_written[usize::from(RELIEF_STREAM)..].iter().sum();
        let (volumes, snapshots) = state.catalog.counts();
        Stats {
            uptime_s: (now - self.inner.opened_at).as_secs_f64(),
            volumes,
            snapshots,
            client_read_bytes: counters.client_read_bytes,
            client_write_bytes: counters.client_write_bytes,
            device_read_bytes: counters.device_read_blocks * BLOCK_SIZE,
            device_write_bytes: counters.device_write_blocks * BLOCK_SIZE,
            accepted_write_bytes: counters.client_write_blocks * BLOCK_SIZE,
            log_write_bytes: log_blocks * BLOCK_SIZE - moved_bytes,
            reclaim_write_bytes: by_stream(RECLAIM_STREAM) + moved_bytes,
            map_write_bytes: by_stream(MAP_STREAM),
            write_amplification: if counters.client_write_blocks == 0 {
                0.0
            } else {
                counters.device_write_blocks as f64 / counters.client_write_blocks as f64
            },
            space: state.space_stats(),
            segment_bytes: state.space.zone_blocks * BLOCK_SIZE,
            segments_allocated: state.space.allocated_total,
            segments_freed: state.space.freed_total,
            segments_released: counters.segments_released,
            released_bytes: counters.released_bytes,
            held_bytes: self.device().abilities().held_bytes(),
            segments_reclaimed: reclaim.segments_retired,
            segments_levelled: reclaim.segments_levelled,
            moved_bytes: reclaim.blocks_moved * BLOCK_SIZE,
            reclaim_cycles: reclaim.cycles,
            mappings_scanned: reclaim.mappings_scanned,
            scan_cpu_ns: reclaim.scan_cpu_ns,
            reclaim_share: state.reclaim.last_pacing.reclaim_share,
            pressure: state.reclaim.last_pacing.pressure,
            panic: state.reclaim.last_pacing.panic,
            panics: reclaim.panics,
            leaves_repointed: reclaim.leaves_repointed,
            copy_forward_failures: reclaim.copy_forward_failures,
            room_waits: counters.room_waits,
            room_refusals: counters.room_refusals,
            checkpoints: counters.checkpoints,
            device_flushes: counters.device_flushes,
            replayed_records: counters.replayed_records,
            dropped_records: counters.dropped_records,
            promises: counters.promises,
            outlive_waits: counters.outlive_waits,
            checksum_errors: state.read_errors.mismatched.total(),
            checksum_errors_by: state.read_errors.mismatched,
            read_errors: state.read_errors.failed.total(),
            read_errors_by: state.read_errors.failed,
            last_read_error: state.read_errors.last().cloned(),
            map_nodes: usage.nodes as u64,
            map_leaves: usage.leaves as u64,
            map_bytes: memory.nodes,
            map_table_bytes: memory.table,
            checksum_bytes: memory.checksums + memory.open_checksums,
            memory_bytes: memory.total(),
            memory_budget_bytes: self.inner.options.memory_bytes,
            frozen_bytes: memory.frozen,
            index_bytes: memory.index,
            mark_bytes: memory.mark,
            relocation_bytes: memory.batch,
            buffer_bytes: memory.buffers,
            candidates_dropped: state.reclaim.index.dropped,
            dirty_bytes: memory.unwritten,
            placement: state.placement.name().into(),
            placement_streams: state.placement.classes().into(),
            client_streams: state.placement.spread().into(),
            placement_streams_wanted: state.placement.wanted.into(),
            placement_bytes: memory.placement,
            displaced_bytes: state.placement.displaced_blocks * BLOCK_SIZE,
            nodes_loaded: counters.nodes_loaded,
            read_latency: counters.read_latency.summary(),
            write_latency: counters.write_latency.summary(),
            flush_latency: counters.flush_latency.summary(),
            trim_latency: counters.trim_latency.summary(),
            atomic_latency: counters.atomic_latency.summary(),
            reclaim_failed: state.reclaim.failure.as_ref().map(|error| error.message.clone()),
            failed: state
                .failed
                .as_ref()
                .filter(|error| error.kind != ErrorKind::ReadOnly)
                .map(|error| error.message.clone()),
        }
    }
}
