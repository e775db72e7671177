//! Studies: a drive in virtual time, a workload, and what came of it.
//!
//! A [`Study`] names the hardware, what runs on it (the shipping engine, or a plain page-mapped
//! FTL to compare with), what it held before, what is asked of it, and what is measured. [`run`]
//! is a pure function of that and a seed.
//!
//! * `world`: virtual time. `drive`: NAND as a [`mjolnir_device::Device`], with tags in place of
//!   payload. `front`: queue, link and core.
//! * `source`: synthetic jobs and traces. `client`: who makes their requests. `oracle`: what a read
//!   may return.
//! * `reclaim_cost`: another sort of run on the same drive, of reclaim alone, after `data` was
//!   written.
//! * `meter`, `sampler`, `measured`: what is told.
//!
//! **Processor work** takes virtual time by stated constants (`engine.request_ns`,
//! `engine.scan_ns_per_mapping`), which stand in the results.
//!
//! **Imports** `units`, `device`, `store`, `policy`, `engine`, `flash`, `workload`, `vtime`, and of
//! `experiment` the contract of a [`Kind`](mjolnir_experiment::Kind), whose results it speaks.
//! **Leaves out** which experiments there are, power cuts (`sim`), real time and real threads.

mod asking;
mod client;
mod data;
mod drive;
mod front;
mod hardware;
mod kind;
mod limits;
mod measured;
mod meter;
mod on_engine;
mod on_page_mapped;
mod oracle;
mod precondition;
mod reclaim_cost;
pub mod recordings;
mod sampler;
mod source;
mod spec;
mod world;

pub use data::{Data, DataSpec};
pub use drive::DriveId;
pub use kind::Simulate;
pub use limits::{Limit, Limits};
pub use measured::{Figures, Measured, Written, reclaim_rested};
pub use meter::Meter;
pub use precondition::Precondition;
pub use reclaim_cost::{ReclaimCost, collect_everything};
pub use sampler::Sampler;
pub use source::jobs;
pub use spec::{
    Bytes, DeviceSpec, DriveKind, DriveSpec, EngineSpec, LoadSpec, MeasureSpec, PreconditionSpec,
    Study, check_read_plan,
};

/// Is told the share done, 0 to 1, and answers whether to go on.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Runs a study.
///
/// # Errors
///
/// In a sentence that names the key, where the study makes no sense; else what went wrong.
pub fn run(study: &Study, seed: u64, progress: Progress<'_>) -> Result<Measured, String> {
    study.measure.check()?;
    let own_firmware = study.drive.kind == DriveKind::PageMapped;
    let hardware = hardware::device(&study.device, own_firmware)?;
    match study.drive.kind {
        DriveKind::Engine => {
            let plan = on_engine::Plan::new(study, hardware)?;
            let mut measured = on_engine::run(vec![(study, plan)], seed, progress)?;
            Ok(measured.swap_remove(0))
        }
        DriveKind::PageMapped => on_page_mapped::run(study, hardware, seed, progress),
    }
}

/// Runs studies side by side in one virtual time, each on a drive of its own with an engine and clients
/// of its own, and answers what was measured on each, in their order. Drives are numbered, and each draws
/// by a seed of its own ([`DriveId::seed`]). All are measured from the same instant on; one that is done
/// stands still.
///
/// # Errors
///
/// As [`run`], with the drive's number; where one drive is page-mapped, which has no part in a common
/// time; and where some are timed and others are not.
pub fn run_together(
    studies: &[Study],
    seed: u64,
    progress: Progress<'_>,
) -> Result<Vec<Measured>, String> {
    let mut several = Vec::new();
    for (number, study) in (0..).zip(studies) {
        let id = DriveId(number);
        if study.drive.kind != DriveKind::Engine {
            return Err(format!("{id}: drive.kind: only engines run side by side"));
        }
        if study.measure.timed != studies[0].measure.timed {
            return Err(format!("{id}: measure.timed: say the same for all drives"));
        }
        let plan = study.measure.check().and_then(|()| {
            let hardware = hardware::device(&study.device, false)?;
            on_engine::Plan::new(study, hardware)
        });
        several.push((study, plan.map_err(|why| format!("{id}: {why}"))?));
    }
    on_engine::run(several, seed, progress)
}

/// Refuses a study that cannot be run, as far as that can be told beforehand.
///
/// # Errors
///
/// As [`run`].
pub fn check(study: &Study) -> Result<(), String> {
    study.measure.check()?;
    let own_firmware = study.drive.kind == DriveKind::PageMapped;
    let hardware = hardware::device(&study.device, own_firmware)?;
    let bytes = match study.drive.kind {
        DriveKind::Engine => on_engine::Plan::new(study, hardware)?.bytes,
        DriveKind::PageMapped => on_page_mapped::check(study, &hardware)?,
    };
    source::Source::new(&study.workload, bytes, 0, study.measure.limit())?;
    if study.precondition.workload > 0.0 {
        source::Source::wearing_in(&study.workload, bytes, 0)?;
    }
    Ok(())
}
