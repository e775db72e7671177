//! Studies on the shipping engine: one, or several in one run, each on a drive of its own.
//!
//! All drives of a run share its virtual time and nothing else. Each has a number ([`DriveId`]), a world
//! with its engine, its clients and the cores of its processor, and counters. They are brought into
//! their states one after the other, in no time; then all are measured at once. Before and after that
//! a drive stands still, so that the others do not change what it does.

mod conclude;
mod plan;
mod prepare;

use std::cell::Cell;
use std::rc::Rc;

use conclude::Snapshot;
use futures_util::future::try_join_all;
use mjolnir_vtime::{Sim, SimRuntime};
pub(super) use plan::Plan;

use super::Progress;
use super::asking::ask;
use super::client::Host;
use super::drive::DriveId;
use super::drive::SimDrive;
use super::limits::Limits;
use super::measured::{Figures, Measured};
use super::meter::Meter;
use super::sampler::Sampler;
use super::source::Source;
use super::spec::Study;
use super::world::{explain, simulation};

/// Blocks of each write that fills a drive.
const FILL_BLOCKS: u64 = 128;
/// The share of the whole run that preconditioning is reckoned as, for progress.
const PRECONDITION_PART: f64 = 0.3;

/// A drive of a run, with what will be done to it.
struct Bench<'a> {
    id: DriveId,
    study: &'a Study,
    plan: Plan,
    seed: u64,
    source: Source,
    limits: Limits,
    runtime: SimRuntime,
    /// The share done of what is done to it.
    done: Rc<Cell<f64>>,
}

/// A drive in the state in which it is measured.
struct Prepared<'a> {
    id: DriveId,
    study: &'a Study,
    plan: Plan,
    drive: SimDrive,
    host: Rc<Host>,
    figures: Figures,
    done: Rc<Cell<f64>>,
}

/// A drive that was measured.
struct Ran<'a> {
    prepared: Prepared<'a>,
    begun: Snapshot,
    ended: Snapshot,
    meter: Meter,
    sampler: Rc<Sampler>,
}

/// Runs studies side by side, each on a drive of its own, in their order.
pub(super) fn run(
    several: Vec<(&Study, Plan)>,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Vec<Measured>, String> {
    let Some((_, first)) = several.first() else { return Ok(Vec::new()) };
    let sim = simulation(seed, first.jobs);
    run_in(&sim, several, seed, progress)
}

fn run_in(
    sim: &Sim,
    several: Vec<(&Study, Plan)>,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Vec<Measured>, String> {
    let alone = several.len() == 1;
    let told = move |id: DriveId, why: String| if alone { why } else { format!("{id}: {why}") };
    let timed = several.iter().any(|(study, _)| study.measure.timed);
    let mut benches = Vec::new();
    for (number, (study, plan)) in (0..).zip(several) {
        let id = DriveId(number);
        let runtime = sim.world_with(plan.jobs);
        benches.push(Bench::new(id, study, plan, seed, runtime).map_err(|why| told(id, why))?);
    }
    let done: Vec<_> = benches.iter().map(|bench| bench.done.clone()).collect();
    let mut go_on = move || {
        let all: f64 = done.iter().map(|done| done.get()).sum();
        progress(all / done.len() as f64)
    };
    let clock = sim.world();
    let play = async {
        let mut prepared = Vec::new();
        for bench in benches {
            let (id, world) = (bench.id, bench.runtime.world());
            prepared.push((world, bench.prepare().await.map_err(|why| told(id, why))?));
            // While others are prepared, or still measured, its engine must not do more than it would alone.
            sim.hold(world);
        }
        prepared.iter().for_each(|(world, _)| sim.release(*world));
        clock.set_timed(timed);
        let measure = prepared.into_iter().map(|(world, (prepared, source))| async move {
            let id = prepared.id;
            let ran = prepared.measure(source).await.map_err(|why| told(id, why))?;
            sim.hold(world);
            Ok::<_, String>((world, ran))
        });
        let ran = try_join_all(measure).await?;
        clock.set_timed(false);
        let mut measured = Vec::new();
        for (world, ran) in ran {
            let id = ran.prepared.id;
            sim.release(world);
            measured.push(ran.conclude().await.map_err(|why| told(id, why))?);
        }
        Ok(measured)
    };
    sim.run_watched(play, &mut go_on).map_err(explain)?
}

impl<'a> Bench<'a> {
    fn new(
        id: DriveId,
        study: &'a Study,
        mut plan: Plan,
        seed: u64,
        runtime: SimRuntime,
    ) -> Result<Self, String> {
        let seed = id.seed(seed);
        plan.options.reclaim.seed = !seed; // Failures of NAND are drawn by the seed itself.
        let limits = Limits::new(&study.measure, plan.bytes);
        let source = Source::new(&study.workload, plan.bytes, seed, study.measure.limit())?;
        if let Source::Jobs(workload) = &source {
            limits.expect(workload.requests_max());
        }
        let done = Rc::new(Cell::new(0.0));
        Ok(Bench { id, study, plan, seed, source, limits, runtime, done })
    }
}

impl<'a> Prepared<'a> {
    /// Makes the workload's requests, and measures.
    async fn measure(mut self, source: Source) -> Result<Ran<'a>, String> {
        let (host, measure) = (&self.host, &self.study.measure);
        let begun = Snapshot::of(&host.engine, &self.drive);
        let now_ns = host.runtime.now_ns();
        let meter = Meter::new(now_ns, measure.points, measure.log.as_deref())?;
        *host.meter.borrow_mut() = Some(meter);
        host.limits.start(now_ns);
        let sampler = Rc::new(Sampler::new(measure));
        sampler.look(0, &host.engine);
        let note = {
            let (host, sampler, done) = (host.clone(), sampler.clone(), self.done.clone());
            move || {
                sampler.look(host.sampled_at(), &host.engine);
                let share = host.limits.done(host.runtime.now_ns());
                done.set(PRECONDITION_PART + (1.0 - PRECONDITION_PART) * share);
            }
        };
        let notes = ask(host, source, note).await?;
        self.figures.notes.extend(notes);
        if let Some(why) = host.failed.take() {
            return Err(why);
        }
        let ended = Snapshot::of(&host.engine, &self.drive);
        let mut meter = host.meter.take().ok_or("the measurement was not begun")?;
        meter.end_log()?;
        Ok(Ran { prepared: self, begun, ended, meter, sampler })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use mjolnir_device::Device;
    use mjolnir_engine::{Engine, FormatOptions};
    use mjolnir_store::Store;
    use mjolnir_units::BLOCK_SIZE;
    use mjolnir_vtime::Options;

    use super::prepare::open;
    use super::*;
    use crate::drive::payload::Tagged;
    use crate::drive::saved;
    use crate::front::Front;
    use crate::oracle::Oracle;

    const TINY: &str = r#"
        device = { file = "disksim-ssd", nand = { channels = 2, planes_per_die = 1, blocks_per_plane = 64 } }
        drive = { bytes = "8M", zone_planes = 2 }
        workload = {}
        measure = { oracle = true }"#;

    /// A drive of ten written blocks.
    async fn written(plan: &Plan, runtime: &SimRuntime) -> (SimDrive, Host) {
        let drive = plan.drive(DriveId::default(), runtime, true, 1);
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
        let hardware = crate::hardware::device(&study.device, false).unwrap();
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

    /// What was asked of two drives of a run, traced: the digest, and how many events there were.
    fn traced(seed: u64) -> (u64, u64) {
        let job = r#"synthetic.job = [{ rw = "randrw", bs = "4k" }] }
        precondition = { fill = 1.0 }"#;
        let text = TINY.replace("workload = {}", &format!("workload = {{ {job}"));
        let text = text.replace("oracle = true", "requests = 500");
        let study: Study = toml::from_str(&text).unwrap();
        let plan =
            || Plan::new(&study, crate::hardware::device(&study.device, false).unwrap()).unwrap();
        let options = Options { traced: true, ..Options::untraced(plan().jobs) };
        let sim = Sim::new(!seed, options);
        let several = vec![(&study, plan()), (&study, plan())];
        run_in(&sim, several, seed, &mut |_| true).unwrap();
        (sim.trace_hash(), sim.events())
    }

    #[test]
    fn two_drives_of_a_run_are_traced_the_same_each_time() {
        let (one, other) = (traced(1), traced(2));
        assert_eq!(one, traced(1));
        assert_ne!(one.0, other.0);
        assert!(one.1 > 1_000, "{one:?}");
    }

    #[test]
    fn drives_of_a_run_are_devices_of_their_own() {
        play_on_tiny(|plan, runtime| async move {
            let info = |number| plan.drive(DriveId(number), &runtime, false, 1).info();
            assert_ne!(info(0).uuid, info(1).uuid);
            assert!(info(1).name.ends_with(", number 1 of its run"), "{}", info(1).name);
            assert!(!info(0).name.contains("number"), "{}", info(0).name);
        });
    }

    #[test]
    fn a_saved_state_is_of_the_device_that_it_was_saved_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved").to_str().unwrap().to_owned();
        play_on_tiny(|plan, runtime| async move {
            for number in [0, 3] {
                let drive = plan.drive(DriveId(number), &runtime, false, 1);
                saved::save(&drive, None, &path).unwrap();
                let other = plan.drive(DriveId(1), &runtime, false, 1);
                saved::restore(&other, &path).unwrap();
                assert_eq!(other.info().uuid, DriveId(number).uuid(), "{number}");
            }
        });
    }
}
