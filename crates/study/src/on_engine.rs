//! A study on the shipping engine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mjolnir_engine::{
    Engine, FormatOptions, OpenOptions, RESERVE_SEGMENTS_MIN, ReclaimOptions, SegmentContent, Stats,
};
use mjolnir_flash::Device as Hardware;
use mjolnir_flash::nand::Nand;
use mjolnir_store::{Error, ErrorKind, Store};
use mjolnir_units::{BLOCK_SIZE, ByteSize, TreeId};
use mjolnir_vtime::{Jobs, SimRuntime};

use super::asking::{BLOCKS_A_TURN, ask, in_no_time};
use super::client::{Host, StudyEngine};
use super::drive::{DriveCounts, SimDrive};
use super::front::Front;
use super::layout::Layout;
use super::limits::Limits;
use super::measured::{Figures, Measured, Written, reclaim_rested};
use super::meter::Meter;
use super::oracle::Oracle;
use super::payload::Tagged;
use super::precondition::Precondition;
use super::sampler::Sampler;
use super::source::Source;
use super::spec::Study;
use super::world::{explain, simulation};
use super::{Progress, saved};

/// The volume that is the drive's address space.
const VOLUME: &str = "drive";
/// Blocks of each write that fills a drive.
const FILL_BLOCKS: u64 = 128;
/// The share of the whole run that preconditioning is reckoned as, for progress.
const PRECONDITION_PART: f64 = 0.3;

/// Of so many erase blocks of a plane one is kept back where some may fail: data sheets promise that
/// no more than 2 % do in a drive's life.
const SPARE_SHARE: u32 = 50;

/// What a study on the engine is made of, checked.
pub(super) struct Plan {
    hardware: Hardware,
    layout: Layout,
    /// Bytes that the host is offered.
    pub bytes: u64,
    options: OpenOptions,
    jobs: Jobs,
    precondition: Precondition,
}

impl Plan {
    pub fn new(study: &Study, hardware: Hardware) -> Result<Self, String> {
        let spare_blocks = study.drive.spare_blocks.unwrap_or(match hardware.faults.never() {
            true => 0,
            false => hardware.nand.blocks_per_plane.div_ceil(SPARE_SHARE),
        });
        let layout = Layout::new(&hardware.nand, study.drive.zone_planes, spare_blocks)?;
        let physical = u64::from(layout.zones) * layout.zone_bytes();
        let bytes = match (&study.drive.bytes, study.drive.over_provisioning) {
            (Some(_), Some(_)) => {
                return Err("drive: say `bytes` or `over_provisioning`, not both".to_owned());
            }
            (Some(bytes), None) => bytes.get("drive.bytes")?,
            (None, share) => {
                let share = share.unwrap_or(hardware.ftl.over_provisioning);
                if !(0.0..1.0).contains(&share) {
                    return Err(format!(
                        "drive.over_provisioning = {share}: write a share from 0 to below 1"
                    ));
                }
                ((1.0 - share) * physical as f64) as u64
            }
        };
        let bytes = bytes / BLOCK_SIZE * BLOCK_SIZE;
        if bytes == 0 || bytes > physical {
            return Err(format!(
                "drive.bytes: the host cannot be offered {}: the NAND has {} in all",
                ByteSize(bytes),
                ByteSize(physical)
            ));
        }
        let options = options(study, &hardware, physical)?;
        let jobs =
            Jobs::BySteps { step_ns: study.engine.scan_ns_per_mapping, cores: study.engine.cores };
        let precondition = Precondition::new(&study.precondition)?;
        check_room(study, &layout, precondition.filled(bytes / BLOCK_SIZE))?;
        Ok(Plan { hardware, layout, bytes, options, jobs, precondition })
    }

    fn drive(&self, runtime: &SimRuntime, oracle: bool, seed: u64) -> SimDrive {
        let device = &self.hardware;
        let faults = device.faults.clone();
        let nand = Nand::new(device.nand.clone(), device.timing.clone(), faults, seed);
        let overhead_ns = device.controller.read_overhead_ns;
        SimDrive::new(runtime.clone(), &device.name, self.layout.clone(), nand, overhead_ns, oracle)
    }
}

fn options(study: &Study, hardware: &Hardware, physical: u64) -> Result<OpenOptions, String> {
    let spec = &study.engine;
    for (key, value) in
        [("request_ns", spec.request_ns), ("scan_ns_per_mapping", spec.scan_ns_per_mapping)]
    {
        if !(0.0..=1e9).contains(&value) {
            return Err(format!("engine.{key} = {value}: write a number from 0 to 1e9"));
        }
    }
    if spec.cores == 0 {
        return Err("engine.cores: write at least 1".to_owned());
    }
    let blocks = physical / BLOCK_SIZE;
    let own_buffer = match hardware.controller.write_buffer_bytes {
        0 => 64 << 20,
        bytes => bytes,
    };
    // Without time there is nothing to be won by having much at hand, nor by reading far ahead.
    let (buffer, checksums) = match study.measure.timed {
        true => (own_buffer, u64::MAX),
        false => (own_buffer.min(4 << 20), 512 << 10),
    };
    let unsaid = OpenOptions {
        dirty_bytes_max: buffer,
        checksum_bytes_max: checksums,
        // 16 bytes a block hold the map and the checksums, and a quarter of the budget may be
        // dirty. The least is for buffers.
        memory_bytes: (64 * blocks).max(1 << 30),
        reclaim: ReclaimOptions {
            wear_gap_max: hardware.ftl.wear_gap_max,
            ..ReclaimOptions::default()
        },
        ..OpenOptions::default()
    };
    spec.options(physical, unsaid)
}

/// Runs a study.
pub(super) fn run(
    study: &Study,
    mut plan: Plan,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Measured, String> {
    plan.options.reclaim.seed = !seed; // Failures of NAND are drawn by the seed itself.
    let sim = simulation(seed, plan.jobs);
    let runtime = sim.world();
    let done = Rc::new(Cell::new(0.0));
    let told = done.clone();
    let mut go_on = move || progress(told.get());
    let limits = Limits::new(&study.measure, plan.bytes);
    let source = Source::new(&study.workload, plan.bytes, seed, study.measure.limit())?;
    if let Source::Jobs(workload) = &source {
        limits.expect(workload.requests_max());
    }
    let play = play(study, plan, seed, source, limits, runtime, done);
    sim.run_watched(play, &mut go_on).map_err(explain)?
}

async fn play(
    study: &Study,
    plan: Plan,
    seed: u64,
    source: Source,
    limits: Limits,
    runtime: SimRuntime,
    done: Rc<Cell<f64>>,
) -> Result<Measured, String> {
    let oracle = study.measure.oracle;
    let mut drive = plan.drive(&runtime, oracle, seed);
    let mut tags = None;
    if let Some(path) = &study.precondition.restore {
        tags = saved::restore(&drive, path)?;
    } else {
        Engine::format(drive.clone(), runtime.clone(), FormatOptions::default())
            .await
            .map_err(|error| too_small(&plan, &error))?;
    }
    let (mut engine, mut volume) = open(&plan, &drive, &runtime).await?;
    if let Some(path) = &study.precondition.restore {
        let size = engine.info(volume).map_err(|error| format!("engine: {error}"))?.size;
        is_of(&plan, path, size, tags.as_deref())?;
    }
    // With the memory that it has unless the study says how much, the engine keeps all of its map.
    let forgets = study.engine.memory_bytes.is_none();
    if forgets && study.precondition.save.is_none() {
        drive.forget_map();
    }
    let front = |hardware: &Hardware| {
        Front::new(runtime.clone(), &hardware.controller, study.engine.request_ns)
    };
    let oracle_of = |tags: Option<Vec<u64>>| {
        oracle.then(|| match tags {
            Some(tags) => RefCell::new(Oracle::with(tags)),
            None => RefCell::new(Oracle::new(plan.bytes / BLOCK_SIZE)),
        })
    };
    let host = |engine: StudyEngine, volume: TreeId, oracle, limits, buffered| {
        Rc::new(Host {
            runtime: runtime.clone(),
            engine,
            volume,
            front: front(&plan.hardware),
            buffered,
            oracle,
            tagged: Tagged::new(),
            meter: RefCell::new(None),
            limits,
            failed: RefCell::default(),
        })
    };
    // Whatever the drive's buffer, nothing waits while it is brought into its state.
    let before = host(engine, volume, oracle_of(tags), Limits::default(), true);
    let prepared = prepare(study, &plan, &before, seed, &done).await?;
    let mut figures = Figures::default();
    figures.notes.extend(prepared);
    figures.notes.extend(warm(study, &plan, &before, seed).await?);
    let before = Rc::into_inner(before).ok_or("preconditioning has not ended")?;
    (engine, volume) = (before.engine, before.volume);
    let mut oracle = before.oracle;
    if let Some(path) = &study.precondition.save {
        engine.close().await.map_err(|error| format!("closing the drive's engine: {error}"))?;
        let tags = oracle.take().map(|oracle| oracle.into_inner().settled_tags());
        saved::save(&drive, tags, path)?;
        drop(engine);
        // Go on as those will that restore it.
        drive = plan.drive(&runtime, study.measure.oracle, seed);
        oracle = oracle_of(saved::restore(&drive, path)?);
        (engine, volume) = open(&plan, &drive, &runtime).await?;
        if forgets {
            drive.forget_map();
        }
    }
    let buffered = plan.hardware.controller.write_buffer_bytes > 0 || !study.measure.timed;
    let host = host(engine, volume, oracle, limits, buffered);
    runtime.set_timed(study.measure.timed);
    let begun = Snapshot::of(&host.engine, &drive);
    let log = study.measure.log.as_deref();
    let meter = Meter::new(runtime.now_ns(), study.measure.points, log)?;
    *host.meter.borrow_mut() = Some(meter);
    host.limits.start(runtime.now_ns());
    let sampler = Rc::new(Sampler::new(&study.measure));
    sampler.look(0, &host.engine);
    let note = {
        let (host, sampler, done) = (host.clone(), sampler.clone(), done.clone());
        move || {
            sampler.look(host.sampled_at(), &host.engine);
            let share = host.limits.done(host.runtime.now_ns());
            done.set(PRECONDITION_PART + (1.0 - PRECONDITION_PART) * share);
        }
    };
    let notes = ask(&host, source, note).await?;
    figures.notes.extend(notes);
    if let Some(why) = host.failed.take() {
        return Err(why);
    }
    let ended = Snapshot::of(&host.engine, &drive);
    let mut meter = host.meter.take().ok_or("the measurement was not begun")?;
    meter.end_log()?;
    runtime.set_timed(false);
    if study.measure.oracle {
        let checked = check_all(&host).await?;
        figures.notes.push(format!(
            "the oracle checked every read, and at the end all {checked} blocks of the drive"
        ));
    }
    Ok(conclude(study, &plan, &host, &drive, (begun, ended), meter, sampler, figures))
}

/// Refuses a restored state whose host was offered `size` bytes, and whose oracle knew `tags`, if
/// the plan's is offered others.
fn is_of(plan: &Plan, path: &str, size: u64, tags: Option<&[u64]>) -> Result<(), String> {
    let fail = |why: String| Err(format!("precondition.restore: {path}: {why}"));
    if size != plan.bytes {
        return fail(format!(
            "the saved drive offers its host {size} bytes, and this one {}: restore it with the \
             same drive.bytes or drive.over_provisioning with which it was saved",
            plan.bytes
        ));
    }
    match tags {
        Some(tags) if tags.len() as u64 != size / BLOCK_SIZE => {
            fail("the saved state is damaged: save it again".to_owned())
        }
        _ => Ok(()),
    }
}

/// Opens the engine on a drive, and finds or makes its volume.
async fn open(
    plan: &Plan,
    drive: &SimDrive,
    runtime: &SimRuntime,
) -> Result<(StudyEngine, TreeId), String> {
    let engine = Engine::open(drive.clone(), runtime.clone(), plan.options.clone())
        .await
        .map_err(|error| format!("engine: {error}"))?;
    let volume = match engine.find(VOLUME) {
        Ok(volume) => volume,
        Err(_) => {
            let made = engine.create_volume(VOLUME, plan.bytes).await;
            made.map_err(|error| format!("drive.bytes: {error}"))?
        }
    };
    Ok((engine, volume.id))
}

fn too_small(plan: &Plan, error: &Error) -> String {
    if error.kind == ErrorKind::Io {
        return format!("formatting the drive: {error}");
    }
    format!(
        "the device is too small for an engine: {error}. It has {} zones of {}; make \
         device.nand.blocks_per_plane larger, or drive.zone_planes smaller",
        plan.layout.zones,
        ByteSize(plan.layout.zone_bytes())
    )
}

/// Refuses to fill more blocks than the engine's own reserve leaves, whatever it is that is written.
fn check_room(study: &Study, layout: &Layout, filled: u64) -> Result<(), String> {
    let data_zones = u64::from(layout.zones.saturating_sub(RESERVE_SEGMENTS_MIN));
    if layout.zones < RESERVE_SEGMENTS_MIN || filled <= data_zones * layout.zone_blocks {
        return Ok(());
    }
    let key = if study.drive.bytes.is_some() { "bytes" } else { "over_provisioning" };
    Err(format!(
        "drive.{key}: precondition.fill writes {} of {} NAND, and the engine keeps at least \
         {RESERVE_SEGMENTS_MIN} zones of {} for itself: leave more spare (drive.over_provisioning), \
         make zones smaller (drive.zone_planes), or fill less",
        ByteSize(filled * BLOCK_SIZE),
        ByteSize(u64::from(layout.zones) * layout.zone_bytes()),
        ByteSize(layout.zone_bytes())
    ))
}

/// Says why preconditioning failed, and what to do where the drive has no room for what its host is
/// offered.
fn unprepared(plan: &Plan, error: &Error) -> String {
    if error.kind != ErrorKind::NoSpace {
        return format!("preconditioning failed: {error}");
    }
    let physical = u64::from(plan.layout.zones) * plan.layout.zone_bytes();
    format!(
        "preconditioning failed: {error}. The host is offered {} of {} NAND, and the engine keeps \
         some zones of {} for itself: raise drive.over_provisioning, or make zones smaller \
         (drive.zone_planes)",
        ByteSize(plan.bytes),
        ByteSize(physical),
        ByteSize(plan.layout.zone_bytes())
    )
}

/// Brings the drive into its state. Nothing takes time meanwhile.
async fn prepare(
    study: &Study,
    plan: &Plan,
    host: &Host,
    seed: u64,
    done: &Cell<f64>,
) -> Result<Vec<String>, String> {
    let blocks = plan.bytes / BLOCK_SIZE;
    let filled = plan.precondition.filled(blocks);
    let wanted = filled as f64 * (1.0 + study.precondition.overwrites);
    let mut written = 0;
    let mut at = 0;
    while at < filled {
        let count = FILL_BLOCKS.min(filled - at);
        host.write(at, count).await.map_err(|error| unprepared(plan, &error))?;
        at += count;
        written += count;
        tell(host, done, PRECONDITION_PART * written as f64 / wanted).await;
    }
    let over = if study.precondition.restore.is_some() && filled == 0 { blocks } else { filled };
    let mut turn = 0;
    for (first, count) in plan.precondition.overwrites(over, seed ^ 0x5eed) {
        host.write(first, count).await.map_err(|error| unprepared(plan, &error))?;
        written += count;
        turn += count;
        if turn >= BLOCKS_A_TURN {
            turn = 0;
            tell(host, done, PRECONDITION_PART * written as f64 / wanted.max(1.0)).await;
        }
    }
    host.engine.flush().await.map_err(|error| format!("preconditioning failed: {error}"))?;
    done.set(PRECONDITION_PART);
    if written == 0 {
        return Ok(Vec::new());
    }
    let what = &study.precondition;
    Ok(vec![format!(
        "preconditioned by {written} block writes: {:.0} % filled in order, then overwritten {} \
         times over ({})",
        100.0 * what.fill,
        what.overwrites,
        what.pattern
    )])
}

/// Makes the workload's requests, in no time, until enough was written.
async fn warm(
    study: &Study,
    plan: &Plan,
    host: &Rc<Host>,
    seed: u64,
) -> Result<Option<String>, String> {
    let times = study.precondition.workload;
    let blocks = (times * (plan.bytes / BLOCK_SIZE) as f64) as u64;
    if blocks == 0 {
        return Ok(None);
    }
    for limit in [&host.limits.requests, &host.limits.until_ns] {
        limit.set(u64::MAX);
    }
    host.limits.blocks.set(blocks);
    match Source::wearing_in(&study.workload, plan.bytes, seed)? {
        Source::Jobs(workload) => {
            let requests = workload
                .interleaved()
                .map_err(|error| format!("workload.synthetic: {error}"))?
                .map(|(_, request)| Ok(request));
            in_no_time(host, requests, || ()).await;
        }
        Source::Trace(trace) => in_no_time(host, trace, || ()).await,
    }
    if let Some(why) = host.failed.take() {
        return Err(format!("preconditioning failed: {why}"));
    }
    host.engine.flush().await.map_err(|error| format!("preconditioning failed: {error}"))?;
    let written = blocks - host.limits.blocks.get();
    Ok(Some(format!(
        "then the workload wrote {written} blocks, in no time, before it was measured"
    )))
}

async fn tell(host: &Host, done: &Cell<f64>, share: f64) {
    done.set(share);
    host.runtime.note_progress();
    host.runtime.give_way().await;
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

/// Counts at one moment.
struct Snapshot {
    stats: Stats,
    drive: DriveCounts,
}

impl Snapshot {
    fn of(engine: &StudyEngine, drive: &SimDrive) -> Self {
        Snapshot { stats: engine.stats(), drive: drive.state().counts }
    }
}

#[allow(clippy::too_many_arguments)]
fn conclude(
    study: &Study,
    plan: &Plan,
    host: &Host,
    drive: &SimDrive,
    (begun, ended): (Snapshot, Snapshot),
    meter: Meter,
    sampler: Rc<Sampler>,
    mut figures: Figures,
) -> Measured {
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
    Measured { written, requests, reclaim_ran: ran, outcome: figures.into_outcome() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = r#"
        device = { file = "disksim-ssd", nand = { channels = 2, planes_per_die = 1, blocks_per_plane = 64 } }
        drive = { bytes = "8M", zone_planes = 2 }
        workload = {}
        measure = { oracle = true }"#;

    /// A drive of ten written blocks.
    async fn written(plan: &Plan, runtime: &SimRuntime) -> (SimDrive, Host) {
        let drive = plan.drive(runtime, true, 1);
        Engine::format(drive.clone(), runtime.clone(), FormatOptions::default()).await.unwrap();
        let (engine, volume) = open(plan, &drive, runtime).await.unwrap();
        let host = Host {
            runtime: runtime.clone(),
            engine,
            volume,
            front: Front::new(runtime.clone(), &plan.hardware.controller, 0.0),
            buffered: true,
            oracle: Some(RefCell::new(Oracle::new(plan.bytes / BLOCK_SIZE))),
            tagged: Tagged::new(),
            meter: RefCell::default(),
            limits: Limits::default(),
            failed: RefCell::default(),
        };
        host.write(0, 10).await.unwrap();
        host.engine.flush().await.unwrap();
        (drive, host)
    }

    fn play_on_tiny<F: Future<Output = ()>>(scene: impl FnOnce(Plan, SimRuntime) -> F) {
        let study: Study = toml::from_str(TINY).unwrap();
        let hardware = super::super::hardware::device(&study.device, false).unwrap();
        let plan = Plan::new(&study, hardware).unwrap();
        let sim = simulation(1, plan.jobs);
        let runtime = sim.world();
        sim.run(scene(plan, runtime)).unwrap();
    }

    #[test]
    fn a_block_that_the_drive_mixes_up_fails_its_checksum() {
        play_on_tiny(|plan, runtime| async move {
            let (drive, host) = written(&plan, &runtime).await;
            host.read(3, 4).await.expect("as it was written");
            drive.plant_wrong_tag();
            let error = host.read(3, 1).await.unwrap_err();
            assert!(error.contains("does not match its checksum"), "{error}");
        });
    }

    #[test]
    fn a_write_that_was_lost_is_caught_by_the_oracle() {
        play_on_tiny(|plan, runtime| async move {
            let (_drive, host) = written(&plan, &runtime).await;
            if let Some(oracle) = &host.oracle {
                let tag = oracle.borrow_mut().draw(1);
                oracle.borrow_mut().begin_write(5, 1, Some(tag));
                oracle.borrow_mut().end_write(5, 1, Some(tag));
            }
            host.read(0, 5).await.expect("the others are as they were written");
            let error = host.read(0, 10).await.unwrap_err();
            assert!(error.contains("block 5 of the drive was read back wrong"), "{error}");
        });
    }
}
