//! Brings a drive into the state in which it is measured. Nothing takes time meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mjolnir_engine::{Engine, FormatOptions};
use mjolnir_flash::Device as Hardware;
use mjolnir_store::{Error, ErrorKind, Store};
use mjolnir_units::{BLOCK_SIZE, ByteSize, TreeId};
use mjolnir_vtime::SimRuntime;

use super::{Bench, FILL_BLOCKS, PRECONDITION_PART, Plan, Prepared};
use crate::asking::{BLOCKS_A_TURN, in_no_time};
use crate::client::{Host, StudyEngine};
use crate::drive::SimDrive;
use crate::drive::payload::Tagged;
use crate::drive::saved;
use crate::front::Front;
use crate::limits::Limits;
use crate::measured::Figures;
use crate::oracle::Oracle;
use crate::source::Source;
use crate::spec::Study;

/// The volume that is the drive's address space.
const VOLUME: &str = "drive";

impl<'a> Bench<'a> {
    /// Brings the drive into its state, and has a host for its clients, who ask what the source says.
    pub async fn prepare(self) -> Result<(Prepared<'a>, Source), String> {
        let Bench { id, study, plan, seed, source, limits, runtime, done } = self;
        let oracle = study.measure.oracle;
        let mut drive = plan.drive(id, &runtime, oracle, seed);
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
            drive = plan.drive(id, &runtime, study.measure.oracle, seed);
            oracle = oracle_of(saved::restore(&drive, path)?);
            (engine, volume) = open(&plan, &drive, &runtime).await?;
            if forgets {
                drive.forget_map();
            }
        }
        let buffered = plan.hardware.controller.write_buffer_bytes > 0 || !study.measure.timed;
        let host = host(engine, volume, oracle, limits, buffered);
        Ok((Prepared { id, study, plan, drive, host, figures, done }, source))
    }
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
pub(super) async fn open(
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

/// Says why preconditioning failed, and what to do where the drive has no room for what its host is
/// offered, unless it is worn out.
fn unprepared(plan: &Plan, host: &Host, error: &Error) -> String {
    if error.kind != ErrorKind::NoSpace || host.engine.stats().segments_bad > 0 {
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
        host.write(at, count).await.map_err(|error| unprepared(plan, host, &error))?;
        at += count;
        written += count;
        tell(host, done, PRECONDITION_PART * written as f64 / wanted).await;
    }
    let over = if study.precondition.restore.is_some() && filled == 0 { blocks } else { filled };
    let mut turn = 0;
    for (first, count) in plan.precondition.overwrites(over, seed ^ 0x5eed) {
        host.write(first, count).await.map_err(|error| unprepared(plan, host, &error))?;
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
