//! What the store tells about itself.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::ErrorKind;
use mjolnir_store::report::Stats;
use mjolnir_units::BLOCK_SIZE;

use crate::drive::Engine;
use crate::space::{MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// The store at a glance.
    ///
    /// As long as `Stats` has fields: a line for each, in their order. In pieces that fill some fields each, one that
    /// was forgotten would be 0; here the compiler tells of it.
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
            segments_bad: state.space.bad().count() as u64,
            segments_bad_in_use: (state.space.bad().count() - state.space.empty_bad().count())
                as u64,
            write_errors: counters.write_errors,
            groups_logged_again: counters.groups_logged_again,
            last_write_error: counters.last_write_error.clone(),
            outage: state.outage.as_ref().map(|outage| outage.describe(now)),
            outages: counters.outages,
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
