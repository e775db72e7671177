//! A load of clients on a store in a real file: the paper's figure 2.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_lite::future::yield_now;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mjolnir_device::Runtime as _;
use mjolnir_engine::OpenOptions;
use mjolnir_experiment::{Outcome, parse_configuration};
use mjolnir_host::{HostRuntime, LocalStore};
use mjolnir_store::{Durability, Store, ZeroMode};
use mjolnir_study::{
    Bytes as Size, EngineSpec, Figures, Limits, MeasureSpec, Meter, Precondition, PreconditionSpec,
    Sampler, Written, jobs, reclaim_rested,
};
use mjolnir_units::{BLOCK_SIZE, TreeId};
use mjolnir_workload::synthetic::{Workload, WorkloadSpec};
use mjolnir_workload::{Op, Request};
use serde::Deserialize;

use crate::by_clock::Planned;
use crate::place::{MachineSpec, Place, payload};
use crate::reclaim::processor_s;
use crate::stopped;

/// The volume that clients use.
const VOLUME: &str = "drive";
/// Blocks of each write that fills the volume.
const FILL_BLOCKS: u64 = 128;
/// The longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// The part of a run that preconditioning is reckoned as, for progress.
const PRECONDITION_PART: f64 = 0.3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    machine: MachineSpec,
    drive: DriveSpec,
    #[serde(default)]
    engine: EngineSpec,
    workload: LoadSpec,
    #[serde(default)]
    precondition: PreconditionSpec,
    #[serde(default)]
    measure: MeasureSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveSpec {
    /// Bytes of the volume.
    bytes: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadSpec {
    synthetic: WorkloadSpec,
}

/// Refuses what has a meaning in virtual time alone.
fn check_engine(spec: &EngineSpec) -> Result<(), String> {
    let unsaid = EngineSpec::default();
    let said = (spec.request_ns, spec.scan_ns_per_mapping, spec.cores);
    if said != (unsaid.request_ns, unsaid.scan_ns_per_mapping, unsaid.cores) {
        return Err("engine: request_ns, scan_ns_per_mapping and cores are for the lab alone, \
                    where processor time is charged"
            .to_owned());
    }
    Ok(())
}

/// `kind = "machine-load"`: as `simulate`, on a real file.
pub(crate) struct Load {
    place: Place,
    bytes: u64,
    options: OpenOptions,
    workload: Workload,
    precondition: Precondition,
    measure: MeasureSpec,
    seed: u64,
}

impl Planned for Load {
    const NAME: &'static str = "machine-load";

    fn new(configuration: &toml::Table, seed: u64) -> Result<Self, String> {
        let configuration: Configuration = parse_configuration(configuration)?;
        let place = Place::new(&configuration.machine)?;
        let bytes = configuration.drive.bytes.get("drive.bytes")? / BLOCK_SIZE * BLOCK_SIZE;
        if bytes == 0 || bytes > place.bytes {
            return Err(
                "drive.bytes: write at least a block, and no more than machine.bytes".into()
            );
        }
        let measure = configuration.measure;
        measure.check()?;
        if !measure.timed || measure.oracle || measure.log.is_some() {
            return Err("measure: timed = false, oracle and log are for the lab alone".to_owned());
        }
        if configuration.precondition.restore.is_some() || configuration.precondition.save.is_some()
        {
            return Err("precondition: restore and save are for the lab alone".to_owned());
        }
        check_engine(&configuration.engine)?;
        let synthetic = &configuration.workload.synthetic;
        let workload = jobs(synthetic, bytes, seed, measure.limit())?;
        if workload.jobs().iter().any(|job| job.is_timed()) {
            return Err("workload.synthetic: arrivals at times of their own are for the lab \
                        alone; leave out rates"
                .to_owned());
        }
        let mut options = configuration.engine.options(place.bytes, OpenOptions::default())?;
        options.reclaim.seed = seed;
        Ok(Load {
            workload,
            precondition: Precondition::new(&configuration.precondition)?,
            options,
            place,
            bytes,
            measure,
            seed,
        })
    }

    async fn play(
        self,
        runtime: HostRuntime,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Outcome, String> {
        let words = |error: mjolnir_store::Error| format!("engine: {error}");
        let engine = self.place.store(self.options.clone(), &runtime).await?;
        let volume = engine.create_volume(VOLUME, self.bytes).await.map_err(words)?.id;
        let payload = payload();
        self.prepare(&engine, volume, &payload, progress).await?;
        let measure = &self.measure;
        let limits = Limits::new(measure, self.bytes);
        limits.expect(self.workload.requests_max());
        let (begun_ns, before) = (runtime.now().0, engine.stats());
        let processor = processor_s();
        limits.start(begun_ns);
        let host = Host {
            runtime: runtime.clone(),
            volume,
            payload: &payload,
            meter: RefCell::new(Meter::new(begun_ns, measure.points, None)?),
            sampler: Sampler::new(measure),
            memory_bytes: Cell::new(0),
            progress: RefCell::new(progress),
            limits,
            engine,
        };
        host.sampler.look(0, &host.engine);
        let mut clients = FuturesUnordered::new();
        for number in 0..self.workload.jobs().len() {
            let job = &self.workload.jobs()[number];
            let start_ns = begun_ns.saturating_add(job.start_ns());
            let follow = Follow {
                start_ns,
                end_ns: job.runtime_ns().map_or(u64::MAX, |ns| start_ns.saturating_add(ns)),
                think_ns: job.think_ns(),
            };
            let generator = Rc::new(RefCell::new(self.workload.generator(number)));
            for _ in 0..job.iodepth() {
                let generator = generator.clone();
                let next = move || generator.borrow_mut().next();
                clients.push(host.client(next, follow));
            }
        }
        while let Some(done) = clients.next().await {
            done?;
        }
        drop(clients);
        let (after, processor) = (host.engine.stats(), processor_s() - processor);
        host.engine.close().await.map_err(words)?;
        let mut figures = Figures::default();
        let meter = host.meter.into_inner();
        let difference =
            |of: fn(&mjolnir_store::report::Stats) -> u64| (of(&after) - of(&before)) as f64;
        let blocks = BLOCK_SIZE as f64;
        let (client, moved) = (
            difference(|s| s.accepted_write_bytes) / blocks,
            difference(|s| s.moved_bytes) / blocks,
        );
        let media =
            difference(|s| s.log_write_bytes + s.reclaim_write_bytes + s.map_write_bytes) / blocks;
        figures.written(&Written {
            host_blocks: client,
            reclaim_blocks: moved,
            metadata_blocks: (media - client - moved).max(0.0),
            ..Written::default()
        });
        figures.meter(&meter, true);
        host.sampler.tell(&mut figures);
        let cycles = difference(|s| s.reclaim_cycles);
        let gib = client * blocks / f64::from(1 << 30);
        for (name, value) in [
            ("victims", difference(|s| s.segments_reclaimed)),
            ("reclaim_cycles", cycles),
            ("mappings_scanned", difference(|s| s.mappings_scanned)),
            ("scan_cpu_ms", difference(|s| s.scan_cpu_ns) / 1e6),
            ("scan_cpu_ms_per_gib", difference(|s| s.scan_cpu_ns) / 1e6 / gib.max(1e-9)),
            ("marks_per_gib", cycles / gib.max(1e-9)),
            ("cpu_s", processor),
            ("cpu_ms_per_gib", processor * 1e3 / gib.max(1e-9)),
            ("panics", difference(|s| s.panics)),
            ("room_waits", difference(|s| s.room_waits)),
            ("checkpoints", difference(|s| s.checkpoints)),
            ("map_bytes", after.map_bytes as f64),
            ("index_bytes", after.index_bytes as f64),
            ("mark_bytes", after.mark_bytes as f64),
            ("placement_bytes", after.placement_bytes as f64),
            ("engine_memory_bytes", host.memory_bytes.get().max(after.memory_bytes) as f64),
            ("segment_bytes", after.segment_bytes as f64),
            ("drive_bytes", self.bytes as f64),
        ] {
            figures.number(name, value);
        }
        let victims = difference(|s| s.segments_reclaimed);
        figures.notes.push(match victims > 0.0 {
            true => format!("reclaim ran: {victims} segments given up, {moved:.0} blocks moved"),
            false => reclaim_rested((&before, &after), &self.options.reclaim),
        });
        figures.notes.push(self.place.note());
        Ok(figures.into_outcome())
    }
}

/// When a client's requests begin and end, and how long it thinks in between.
#[derive(Clone, Copy)]
struct Follow {
    start_ns: u64,
    end_ns: u64,
    think_ns: u64,
}

/// What all clients share.
struct Host<'a> {
    engine: LocalStore,
    runtime: HostRuntime,
    volume: TreeId,
    payload: &'a dyn Fn(usize) -> Bytes,
    meter: RefCell<Meter>,
    sampler: Sampler,
    limits: Limits,
    memory_bytes: Cell<u64>,
    /// The share done, and whether to go on.
    progress: RefCell<&'a mut dyn FnMut(f64) -> bool>,
}

impl Host<'_> {
    async fn perform(&self, request: &Request) -> Result<(), String> {
        let Request { op, offset, length, .. } = *request;
        let aligned = offset.is_multiple_of(BLOCK_SIZE) && length.is_multiple_of(BLOCK_SIZE);
        if !aligned || length > REQUEST_BYTES_MAX {
            return Err(format!(
                "workload.synthetic: a {op} of {length} bytes at byte {offset}: requests here are \
                 of whole blocks of {BLOCK_SIZE}, and of at most {REQUEST_BYTES_MAX}"
            ));
        }
        let (engine, volume, buffered) = (&self.engine, self.volume, Durability::Buffered);
        let done = match op {
            Op::Write => {
                let data = (self.payload)((length / BLOCK_SIZE) as usize);
                engine.write(volume, offset, data, buffered).await
            }
            Op::Read => engine.read(volume, offset, length).await.map(drop),
            Op::Trim => engine.trim(volume, offset, length, buffered).await,
            Op::WriteZeroes => {
                engine.write_zeroes(volume, offset, length, ZeroMode::Unmap, buffered).await
            }
            Op::Flush => engine.flush().await,
        };
        done.map_err(|error| format!("a {op} of {length} bytes at byte {offset} failed: {error}"))
    }

    /// One place of a queue: a request, its completion, the next request.
    async fn client(
        &self,
        mut next: impl FnMut() -> Option<Request>,
        Follow { start_ns, end_ns, think_ns }: Follow,
    ) -> Result<(), String> {
        let until_ns = end_ns.min(self.limits.until_ns());
        let wait_ns = start_ns.min(until_ns).saturating_sub(self.runtime.now().0);
        if wait_ns > 0 {
            self.runtime.sleep(Duration::from_nanos(wait_ns)).await;
        }
        loop {
            let now_ns = self.runtime.now().0;
            if now_ns >= until_ns || !self.limits.allow(now_ns) {
                return Ok(());
            }
            let Some(request) = next() else { return Ok(()) };
            self.limits.take(&request);
            self.perform(&request).await?;
            let done_ns = self.runtime.now().0;
            let Request { op, offset, length, .. } = request;
            self.meter.borrow_mut().completed(now_ns, done_ns, op, offset, length);
            self.sampler.look(done_ns - self.limits.from_ns(), &self.engine);
            if self.meter.borrow().requests.is_multiple_of(4096) {
                let memory = self.engine.stats().memory_bytes;
                self.memory_bytes.set(self.memory_bytes.get().max(memory));
                let share =
                    PRECONDITION_PART + (1.0 - PRECONDITION_PART) * self.limits.done(done_ns);
                if !(self.progress.borrow_mut())(share) {
                    return Err(stopped());
                }
            }
            match think_ns {
                // Those who wait come first, as they do where a client is elsewhere.
                0 => yield_now().await,
                think_ns => self.runtime.sleep(Duration::from_nanos(think_ns)).await,
            }
        }
    }
}

impl Load {
    async fn prepare(
        &self,
        engine: &LocalStore,
        volume: TreeId,
        payload: &dyn Fn(usize) -> Bytes,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<(), String> {
        let blocks = self.bytes / BLOCK_SIZE;
        let filled = self.precondition.filled(blocks);
        let fill = (0..filled.div_ceil(FILL_BLOCKS))
            .map(|at| (at * FILL_BLOCKS, FILL_BLOCKS.min(filled - at * FILL_BLOCKS)));
        let all = fill.chain(self.precondition.overwrites(filled, self.seed ^ 0x5eed));
        for (number, (first, count)) in all.enumerate() {
            let data = payload(count as usize);
            let written = engine.write(volume, first * BLOCK_SIZE, data, Durability::Buffered);
            written.await.map_err(|error| format!("preconditioning failed: {error}"))?;
            if number % 4096 == 0 && !progress(0.0) {
                return Err(stopped());
            }
        }
        engine.flush().await.map_err(|error| format!("preconditioning failed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_experiment::Kind;

    use super::*;
    use crate::by_clock::ByClock;

    const LOAD: ByClock<Load> = ByClock::new();

    fn configuration(folder: &std::path::Path, job: &str) -> toml::Table {
        let text = format!(
            "machine = {{ folder = {folder:?}, bytes = \"64M\", segment_bytes = \"1M\" }}
            drive.bytes = \"8M\"
            workload.synthetic.job = [{{ rw = \"randwrite\", bs = \"4k\", {job} }}]"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_job_that_says_when_it_ends_ends() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let job = "iodepth = 2, startdelay = \"20ms\", runtime = \"50ms\"";
        // Without its end it would go on until it is stopped here.
        let mut looks = 0;
        let mut progress = |_: f64| {
            looks += 1;
            looks < 2_000
        };
        let outcome = LOAD.run(&configuration(folder.path(), job), 1, &mut progress).unwrap();
        let elapsed_ms = outcome.numbers["elapsed_s"] * 1e3;
        assert!(elapsed_ms >= 20.0, "it began too early: {elapsed_ms} ms");
    }

    #[test]
    fn arrivals_at_times_are_refused_before_anything_is_written() {
        let job = "rate_iops = 100, number_ios = 5";
        let refused = LOAD.check(&configuration(std::path::Path::new("."), job)).unwrap_err();
        assert!(refused.contains("leave out rates"), "{refused}");
    }

    #[test]
    fn a_second_volume_is_refused_before_anything_is_written() {
        let job = "number_ios = 5, volume = 1";
        let refused = LOAD.check(&configuration(std::path::Path::new("."), job)).unwrap_err();
        assert!(refused.contains("field volume: 1"), "{refused}");
    }

    #[test]
    fn settings_of_the_engine_are_checked_as_in_the_lab() {
        let mut configuration = configuration(std::path::Path::new("."), "number_ios = 5");
        for (key, value, why) in [
            ("candidates_max", "0", "engine.candidates_max: write at least 1"),
            ("candidate_threshold", "1.5", "engine.candidate_threshold = 1.5: write a share"),
            ("cores", "2", "are for the lab alone"),
            ("victim", "\"gredy\"", "engine.victim: no victim policy is called \"gredy\""),
        ] {
            let engine = toml::from_str(&format!("{key} = {value}")).unwrap();
            configuration.insert("engine".to_owned(), toml::Value::Table(engine));
            let refused = LOAD.check(&configuration).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
