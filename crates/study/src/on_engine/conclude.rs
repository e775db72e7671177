//! What came of a run on the engine.

use mjolnir_engine::SegmentContent;
use mjolnir_store::Store;
use mjolnir_store::report::Stats;
use mjolnir_units::BLOCK_SIZE;

use super::{FILL_BLOCKS, Prepared, Ran};
use crate::client::{Host, StudyEngine};
use crate::drive::{DriveCounts, SimDrive};
use crate::measured::{Measured, Written, reclaim_rested};

/// Counts at one moment.
pub(super) struct Snapshot {
    stats: Stats,
    drive: DriveCounts,
}

impl Snapshot {
    pub fn of(engine: &StudyEngine, drive: &SimDrive) -> Self {
        Snapshot { stats: engine.stats(), drive: drive.state().counts }
    }
}

impl Ran<'_> {
    /// Lets the oracle look, if there is one, and tells what was measured.
    pub async fn conclude(mut self) -> Result<Measured, String> {
        if self.prepared.study.measure.oracle {
            let checked = check_all(&self.prepared.host).await?;
            self.prepared.figures.notes.push(format!(
                "the oracle checked every read, and at the end all {checked} blocks of the drive"
            ));
        }
        Ok(conclude(self))
    }
}

/// Reads the whole drive back. Returns how many blocks that were.
async fn check_all(host: &Host) -> Result<u64, String> {
    let blocks =
        host.engine.info(host.volume).map_err(|error| error.to_string())?.size / BLOCK_SIZE;
    let mut at = 0;
    while at < blocks {
        let count = FILL_BLOCKS.min(blocks - at);
        host.read(at, count).await?;
        host.runtime.note_progress();
        at += count;
    }
    Ok(blocks)
}

/// Tells what was measured.
fn conclude(ran: Ran<'_>) -> Measured {
    let Ran { prepared, begun, ended, meter, sampler } = ran;
    let Prepared { id, study, plan, drive, host, mut figures, .. } = prepared;
    let (a, b) = (&begun.stats, &ended.stats);
    let blocks = |bytes: u64| bytes as f64 / BLOCK_SIZE as f64;
    let difference = |of: fn(&Stats) -> u64| of(b) - of(a);
    let host_blocks = blocks(difference(|s| s.accepted_write_bytes));
    let reclaim_blocks = blocks(difference(|s| s.moved_bytes));
    let host_gib = (host_blocks * BLOCK_SIZE as f64 / f64::from(1 << 30)).max(1e-9);
    let by_engine =
        blocks(difference(|s| s.log_write_bytes + s.reclaim_write_bytes + s.map_write_bytes));
    let padding = ended.drive.padding_bytes - begun.drive.padding_bytes;
    let written = Written {
        host_blocks,
        reclaim_blocks,
        // What is still being gathered into groups was not handed to the device.
        metadata_blocks: (by_engine - host_blocks - reclaim_blocks).max(0.0),
        padding_blocks: blocks(padding),
        rewritten_blocks: blocks(ended.drive.rewritten_bytes - begun.drive.rewritten_bytes),
    };
    figures.written(&written);
    figures.meter(&meter, study.measure.timed);
    sampler.tell(&mut figures);
    for (name, value) in [
        ("map_written_blocks", blocks(difference(|s| s.map_write_bytes))),
        ("victims", difference(|s| s.segments_reclaimed) as f64),
        ("wear_victims", difference(|s| s.segments_levelled) as f64),
        ("reclaim_cycles", difference(|s| s.reclaim_cycles) as f64),
        ("mappings_scanned", difference(|s| s.mappings_scanned) as f64),
        ("scan_cpu_ms", difference(|s| s.scan_cpu_ns) as f64 / 1e6),
        ("scan_cpu_ms_per_gib", difference(|s| s.scan_cpu_ns) as f64 / 1e6 / host_gib),
        ("marks_per_gib", difference(|s| s.reclaim_cycles) as f64 / host_gib),
        ("panics", difference(|s| s.panics) as f64),
        ("room_waits", difference(|s| s.room_waits) as f64),
        ("checkpoints", difference(|s| s.checkpoints) as f64),
        ("map_nodes_loaded", difference(|s| s.nodes_loaded) as f64),
        ("map_bytes", b.map_bytes as f64),
        ("map_table_bytes", b.map_table_bytes as f64),
        ("checksum_bytes", b.checksum_bytes as f64),
        ("index_bytes", b.index_bytes as f64),
        ("mark_bytes", b.mark_bytes as f64),
        ("relocation_bytes", b.relocation_bytes as f64),
        ("buffer_bytes", b.buffer_bytes as f64),
        ("placement_bytes", b.placement_bytes as f64),
        ("engine_memory_bytes", b.memory_bytes as f64),
        ("drive_bytes", plan.bytes as f64),
        ("segment_bytes", b.segment_bytes as f64),
        ("cpu_request_ns", study.engine.request_ns),
        ("cpu_scan_ns_per_mapping", study.engine.scan_ns_per_mapping),
        ("erases", (ended.drive.erases - begun.drive.erases) as f64),
        ("pages_read", (ended.drive.pages_read - begun.drive.pages_read) as f64),
    ] {
        figures.number(name, value);
    }
    let segments = host.engine.segments();
    let data = || segments.iter().filter(|segment| segment.content != SegmentContent::Map);
    let whole = plan.layout.zone_blocks as f64;
    figures.utilization(
        data()
            .filter(|segment| !segment.open)
            .filter_map(|segment| segment.live_blocks)
            .map(|live| live as f64 / whole),
    );
    let payload: f64 = data().map(|segment| segment.payload_blocks as f64).sum();
    {
        let mean = sampler.mean_data_blocks();
        figures.number("data_segments_payload_blocks", payload);
        figures.number("data_segments_payload_mean_blocks", mean);
    }
    {
        let state = drive.state();
        figures.wear(state.nand.wear());
        if !plan.hardware.faults.never() {
            figures.number("retired_blocks", f64::from(state.nand.retired_blocks()));
        }
        figures.number("drive_memory_bytes", state.memory_bytes() as f64);
    }
    let ran = difference(|s| s.segments_reclaimed) > 0;
    figures.notes.push(match ran {
        true => format!(
            "reclaim ran: {} segments given up, {:.0} blocks moved",
            difference(|s| s.segments_reclaimed),
            reclaim_blocks
        ),
        false => reclaim_rested((a, b), &plan.options.reclaim),
    });
    let requests = meter.requests;
    Measured { drive: id, written, requests, reclaim_ran: ran, outcome: figures.into_outcome() }
}
