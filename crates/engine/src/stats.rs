//! What the store tells about itself.

use std::time::Duration;

use mjolnir_device::{Device, Runtime};
use mjolnir_store::ErrorKind;
use mjolnir_units::{BLOCK_SIZE, ZoneId};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::read_errors::{ReadError, ReadErrorCounts};
use crate::space::{MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM, SegmentState};

/// Latencies counted in buckets of a quarter power of two.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    total_ns: u128,
    max_ns: u64,
}

const BUCKETS: usize = 64 * 4;

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Box::new([0; BUCKETS]), count: 0, total_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The upper end of the bucket that holds the given part of all.
    fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }

    fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count,
            mean_ns: if self.count == 0 {
                0
            } else {
                (self.total_ns / u128::from(self.count)) as u64
            },
            p50_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max_ns,
        }
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(4);
    let power = 63 - ns.leading_zeros() as usize;
    power * 4 + (ns >> (power - 2)) as usize % 4
}

fn upper(bucket: usize) -> u64 {
    let (power, quarter) = (bucket / 4, bucket as u64 % 4);
    if power < 2 { 4 } else { (5 + quarter) << (power - 2).min(60) }
}

/// Counts since the store was opened.
#[derive(Clone, Default)]
pub(crate) struct Counters {
    pub client_read_bytes: u64,
    pub client_write_bytes: u64,
    pub client_write_blocks: u64,
    pub device_read_blocks: u64,
    pub device_write_blocks: u64,
    pub device_flushes: u64,
    pub zone_resets: u64,
    pub segments_released: u64,
    pub released_bytes: u64,
    pub checkpoints: u64,
    pub nodes_loaded: u64,
    pub room_waits: u64,
    pub room_refusals: u64,
    pub replayed_records: u64,
    pub dropped_records: u64,
    pub promises: u64,
    pub outlive_waits: u64,
    pub read_latency: Histogram,
    pub write_latency: Histogram,
    pub flush_latency: Histogram,
    pub trim_latency: Histogram,
    pub atomic_latency: Histogram,
}

impl Counters {
    /// Requests of clients that were carried out, of any kind.
    pub fn client_requests(&self) -> u64 {
        let Counters {
            read_latency,
            write_latency,
            flush_latency,
            trim_latency,
            atomic_latency,
            ..
        } = self;
        [read_latency, write_latency, flush_latency, trim_latency, atomic_latency]
            .iter()
            .map(|latency| latency.count)
            .sum()
    }
}

/// Latency of one kind of operation since opening, in nanoseconds; percentiles are rounded up by
/// at most a quarter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Operations.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 99 of 100 took at most this.
    pub p99_ns: u64,
    /// 999 of 1,000 took at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
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
    /// The placement policy in force. Another one than was asked for where the device can have too
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
            held_bytes: self.device().held_bytes(),
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

/// A segment at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its zone.
    pub zone: ZoneId,
    /// What fills it.
    pub content: SegmentContent,
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
                open: segment.state == SegmentState::Open,
                payload_blocks: segment.payload.into(),
                live_blocks: segment.live.map(u64::from),
            })
            .collect()
    }
}

impl crate::engine::State {
    fn space_stats(&self) -> SpaceStats {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_rounded_up_by_at_most_a_quarter() {
        let mut histogram = Histogram::default();
        for ns in 1..=10_000u64 {
            histogram.add(Duration::from_nanos(ns * 100));
        }
        let summary = histogram.summary();
        for (found, exact) in [(summary.p50_ns, 500_000), (summary.p99_ns, 990_000)] {
            assert!(found >= exact && found <= exact + exact / 4, "{found} for {exact}");
        }
        assert_eq!((summary.max_ns, summary.count), (1_000_000, 10_000));
    }

    #[test]
    fn the_longest_latency_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::MAX);
        histogram.add(Duration::ZERO);
        assert_eq!(histogram.summary().max_ns, u64::MAX);
    }
}
