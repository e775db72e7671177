//! A study on the plain page-mapped FTL of `mjolnir_flash`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs;
use std::path::Path;

use mjolnir_experiment::ledger::write_whole;
use mjolnir_flash::ftl::{Counts, PageMapped};
use mjolnir_flash::{Device as Hardware, Request as SsdRequest, RequestKind, Ssd};
use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::{Op, Request};

use super::Progress;
use super::asking::{IN_NO_TIME_MAX, takes_no_time};
use super::drive::DriveId;
use super::measured::{Figures, Measured, Written};
use super::meter::Meter;
use super::precondition::Precondition;
use super::source::Source;
use super::spec::{EngineSpec, Study};

/// Requests between two looks at whether to go on.
const REQUESTS_A_LOOK: u64 = 4096;

/// Refuses what cannot be run; answers the drive's bytes.
pub(super) fn check(study: &Study, hardware: &Hardware) -> Result<u64, String> {
    if study.drive.bytes.is_some() || study.drive.over_provisioning.is_some() {
        return Err("drive: with drive.kind = \"page-mapped\" the host is offered what \
                    device.ftl.over_provisioning leaves; say that instead"
            .to_owned());
    }
    if study.drive.spare_blocks.is_some() {
        return Err("drive.spare_blocks: with drive.kind = \"page-mapped\" what \
                    device.ftl.over_provisioning leaves makes up for erase blocks that fail; leave \
                    it out"
            .to_owned());
    }
    if study.engine != EngineSpec::default() {
        return Err("engine: a drive with drive.kind = \"page-mapped\" has firmware of its own; \
                    say its policies under device.ftl, and leave [engine] out"
            .to_owned());
    }
    Precondition::new(&study.precondition)?;
    if study.precondition.workload > 0.0 && study.precondition.save.is_some() {
        return Err("precondition.save: with precondition.workload the state of a page-mapped \
                    drive cannot be kept; leave one of them out"
            .to_owned());
    }
    Ok(hardware.logical_bytes())
}

/// The drive, and what ends the run.
struct Run<'a> {
    ssd: Ssd,
    timed: bool,
    page_bytes: u64,
    meter: Meter,
    /// What the meter has not been told of: it was not done by the last submission.
    under_way: BinaryHeap<Reverse<Completed>>,
    requests_left: u64,
    blocks_left: u64,
    /// Blocks that were to be written: the last request may take it past the limit.
    blocks_asked: u64,
    until_ns: u64,
    share_of: (u64, u64),
    progress: Progress<'a>,
}

/// A request that the drive has said the end of. The first to be done is the least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Completed {
    done_ns: u64,
    /// Those that are done at once are in the order of submission.
    number: u64,
    arrival_ns: u64,
    op: Op,
    offset: u64,
    length: u64,
}

/// Runs a study.
pub(super) fn run(
    study: &Study,
    hardware: Hardware,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Measured, String> {
    let bytes = check(study, &hardware)?;
    let measure = &study.measure;
    let source = Source::new(&study.workload, bytes, seed, measure.limit())?;
    let page_bytes = u64::from(hardware.nand.page_bytes);
    let mut ftl = PageMapped::new(&hardware, seed);
    if measure.oracle {
        ftl = ftl.with_oracle();
    }
    if let Some(path) = &study.precondition.restore {
        if measure.oracle {
            return Err(
                "precondition.restore: a page-mapped drive's oracle must see every write; \
                        leave measure.oracle out"
                    .to_owned(),
            );
        }
        let saved = fs::read(path)
            .map_err(|error| format!("precondition.restore: cannot read {path}: {error}"))?;
        ftl = ftl
            .restore(&saved)
            .map_err(|error| format!("precondition.restore: {path}: {error}"))?;
    }
    let mut figures = Figures::default();
    prepare(study, &mut ftl, page_bytes, seed, progress, &mut figures)?;
    if let Some(path) = &study.precondition.save {
        let saved = ftl.save().map_err(|error| format!("precondition.save: {error}"))?;
        write_whole(Path::new(path), &saved).map_err(|why| format!("precondition.save: {why}"))?;
    }
    let warm = (study.precondition.workload * (bytes / BLOCK_SIZE) as f64) as u64;
    let warm_source = match warm {
        0 => None,
        _ => Some(Source::wearing_in(&study.workload, bytes, seed)?),
    };
    let blocks = measure.blocks_most(bytes);
    let requests = measure.requests.unwrap_or(u64::MAX);
    let mut run = Run {
        ssd: Ssd::with_ftl(&hardware, ftl),
        timed: false,
        page_bytes,
        meter: Meter::new(0, measure.points, None)?,
        under_way: BinaryHeap::new(),
        requests_left: u64::MAX,
        blocks_left: warm,
        blocks_asked: 0,
        until_ns: u64::MAX,
        share_of: (u64::MAX, u64::MAX),
        progress,
    };
    if let Some(source) = warm_source {
        run.ask(source)?;
        // What waits for its program unit to fill up is in no write buffer: none is kept in no time.
        let flushed = run.ssd.ftl_mut().flush(None);
        flushed.map_err(|error| format!("preconditioning failed: {error}"))?;
        let written = run.blocks_asked;
        figures.notes.push(format!(
            "then the workload wrote {written} blocks, in no time, before it was measured"
        ));
    }
    run.ssd.ftl_mut().reset_counts();
    run.timed = measure.timed;
    run.meter = Meter::new(0, measure.points, measure.log.as_deref())?;
    (run.requests_left, run.blocks_left, run.blocks_asked) = (requests, blocks, 0);
    run.share_of = (requests, blocks);
    run.until_ns = measure.ns_most();
    figures.notes.extend(run.ask(source)?);
    run.complete(u64::MAX);
    run.meter.end_log()?;
    let report = run.ssd.ftl().report();
    let counts = &report.counts;
    let written = written(&report.counts, page_bytes, run.blocks_asked);
    figures.written(&written);
    figures.meter(&run.meter, measure.timed);
    for (name, value) in [
        ("victims", report.counts.victims as f64),
        ("erases", report.counts.erases as f64),
        ("pages_read", (counts.host_reads + counts.merge_reads + counts.reclaim_reads) as f64),
        ("drive_bytes", bytes as f64),
        ("drive_memory_bytes", report.memory_bytes as f64),
    ] {
        figures.number(name, value);
    }
    if !hardware.faults.never() {
        let retired = run.ssd.ftl().nand().retired_blocks();
        figures.number("retired_blocks", f64::from(retired));
    }
    figures.utilization(run.ssd.ftl().utilizations());
    figures.wear(run.ssd.ftl().nand().wear());
    figures.notes.push(report.reclaim.to_string());
    Ok(Measured {
        drive: DriveId::default(),
        written,
        requests: run.meter.requests,
        reclaim_ran: report.counts.victims > 0,
        outcome: figures.into_outcome(),
    })
}

/// What was programmed, in blocks of 4 KiB, while the host asked to write so many.
fn written(counts: &Counts, page_bytes: u64, asked_blocks: u64) -> Written {
    let blocks = |pages: u64| pages as f64 * page_bytes as f64 / BLOCK_SIZE as f64;
    // A page is programmed as a whole, however little of it is new.
    let programmed = blocks(counts.host_pages);
    let host_blocks = programmed.min(asked_blocks as f64);
    Written {
        host_blocks,
        reclaim_blocks: blocks(counts.reclaim_pages + counts.wear_pages),
        metadata_blocks: blocks(counts.metadata_pages),
        padding_blocks: blocks(counts.padding_pages) + programmed - host_blocks,
        // What leaves a failed erase block is told among what reclaim moved.
        rewritten_blocks: 0.0,
    }
}

/// Brings the drive into its state, page by page.
fn prepare(
    study: &Study,
    ftl: &mut PageMapped,
    page_bytes: u64,
    seed: u64,
    progress: &mut dyn FnMut(f64) -> bool,
    figures: &mut Figures,
) -> Result<(), String> {
    let how = Precondition::new(&study.precondition)?.in_pages(page_bytes);
    let pages = ftl.logical_pages();
    let filled = how.filled(pages);
    let over = if study.precondition.restore.is_some() && filled == 0 { pages } else { filled };
    let all = (0..filled).map(|page| (page, 1)).chain(how.overwrites(over, seed ^ 0x5eed));
    let mut written = 0u64;
    for (first, count) in all {
        for page in first..first + count {
            ftl.write(page, None).map_err(|error| format!("preconditioning failed: {error}"))?;
        }
        written += count;
        if written.is_multiple_of(1 << 18) && !progress(0.0) {
            return Err("the run was interrupted".to_owned());
        }
    }
    if written > 0 {
        ftl.flush(None).map_err(|error| format!("preconditioning failed: {error}"))?;
        let what = &study.precondition;
        figures.notes.push(format!(
            "preconditioned by {written} page writes: {:.0} % filled in order, then overwritten {} \
             times over ({})",
            100.0 * what.fill,
            what.overwrites,
            what.pattern
        ));
    }
    Ok(())
}

impl Run<'_> {
    fn goes_on(&self, now_ns: u64) -> bool {
        self.requests_left > 0 && self.blocks_left > 0 && now_ns < self.until_ns
    }

    fn ask(&mut self, source: Source) -> Result<Vec<String>, String> {
        match source {
            Source::Jobs(workload) if self.timed => {
                self.ask_timed(&workload)?;
                Ok(Vec::new())
            }
            Source::Jobs(workload) => {
                let requests = workload
                    .interleaved()
                    .map_err(|error| format!("workload.synthetic: {error}"))?;
                self.in_no_time(requests.map(|(_, request)| Ok(request)))?;
                Ok(Vec::new())
            }
            Source::Trace(mut trace) => {
                if self.timed {
                    let depth = trace.queue_depth;
                    self.trace_timed(trace.by_ref(), depth)?;
                } else {
                    self.in_no_time(trace.by_ref())?;
                }
                Ok(trace.notes())
            }
        }
    }

    /// Jobs whose requests come at times of their own, or follow completions.
    fn ask_timed(
        &mut self,
        workload: &mjolnir_workload::synthetic::Workload,
    ) -> Result<(), String> {
        let jobs = workload.jobs();
        let mut generators: Vec<_> = (0..jobs.len()).map(|job| workload.generator(job)).collect();
        let mut heads: Vec<Option<Request>> = vec![None; jobs.len()];
        let mut due = BinaryHeap::new();
        let (mut order, mut in_no_time) = (0, 0);
        let bounded = workload.requests_max().is_some() || self.requests_left != u64::MAX;
        for (who, job) in jobs.iter().enumerate() {
            if job.is_timed() {
                heads[who] = generators[who].next();
                if let Some(request) = heads[who] {
                    due.push(Reverse((request.time.0, order, who)));
                    order += 1;
                }
                continue;
            }
            for _ in 0..job.iodepth() {
                due.push(Reverse((job.start_ns(), order, who)));
                order += 1;
            }
        }
        while let Some(Reverse((at_ns, _, who))) = due.pop() {
            if !self.goes_on(at_ns) {
                break;
            }
            order += 1;
            let job = &jobs[who];
            if job.is_timed() {
                let Some(request) = heads[who].take() else { continue };
                self.submit(at_ns, request)?;
                heads[who] = generators[who].next();
                if let Some(request) = heads[who] {
                    due.push(Reverse((request.time.0, order, who)));
                }
                continue;
            }
            let ends = job.runtime_ns().map_or(u64::MAX, |runtime| job.start_ns() + runtime);
            if at_ns >= ends {
                continue;
            }
            let Some(request) = generators[who].next() else { continue };
            let next_ns = self.submit(at_ns, request)? + job.think_ns();
            in_no_time = if next_ns > at_ns { 0 } else { in_no_time + 1 };
            if in_no_time > IN_NO_TIME_MAX && !bounded {
                return Err(takes_no_time(at_ns));
            }
            due.push(Reverse((next_ns, order, who)));
        }
        Ok(())
    }

    fn trace_timed(
        &mut self,
        requests: impl Iterator<Item = Result<Request, String>>,
        depth: Option<u32>,
    ) -> Result<(), String> {
        let mut under_way: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut now_ns = 0;
        for request in requests {
            let request = request?;
            match depth {
                None => now_ns = request.time.0,
                Some(depth) if under_way.len() >= depth as usize => {
                    if let Some(Reverse(done_ns)) = under_way.pop() {
                        now_ns = now_ns.max(done_ns);
                    }
                }
                Some(_) => {}
            }
            if !self.goes_on(now_ns) {
                break;
            }
            let done_ns = self.submit(now_ns, request)?;
            if depth.is_some() {
                under_way.push(Reverse(done_ns));
            }
        }
        Ok(())
    }

    fn count(&mut self, at_ns: u64, request: &Request) -> Result<(), String> {
        self.requests_left -= 1;
        if request.op == Op::Write {
            let blocks = request.length.div_ceil(BLOCK_SIZE);
            self.blocks_left = self.blocks_left.saturating_sub(blocks);
            self.blocks_asked += blocks;
        }
        if self.made().is_multiple_of(REQUESTS_A_LOOK) {
            let part = |left: u64, of: u64| match of {
                u64::MAX => 0.0,
                of => 1.0 - left as f64 / of.max(1) as f64,
            };
            let (requests, blocks) = self.share_of;
            let time = match self.until_ns {
                u64::MAX => 0.0,
                until => at_ns as f64 / until.max(1) as f64,
            };
            let share =
                part(self.requests_left, requests).max(part(self.blocks_left, blocks)).max(time);
            if !(self.progress)(share) {
                return Err("the run was interrupted".to_owned());
            }
        }
        Ok(())
    }

    /// Makes a request; answers when it is done.
    fn submit(&mut self, at_ns: u64, request: Request) -> Result<u64, String> {
        self.count(at_ns, &request)?;
        let kind = match request.op {
            Op::Read => RequestKind::Read,
            Op::Write => RequestKind::Write,
            Op::Trim | Op::WriteZeroes => RequestKind::Trim,
            Op::Flush => RequestKind::Flush,
        };
        let own = SsdRequest { kind, offset_bytes: request.offset, length_bytes: request.length };
        self.complete(at_ns);
        let done_ns = self.ssd.submit(at_ns, own).map_err(|error| error.to_string())?.done_ns;
        let Request { op, offset, length, .. } = request;
        let (arrival_ns, number) = (at_ns, self.made());
        self.under_way.push(Reverse(Completed { done_ns, number, arrival_ns, op, offset, length }));
        Ok(done_ns)
    }

    /// Requests that were made.
    fn made(&self) -> u64 {
        self.meter.requests + self.under_way.len() as u64
    }

    /// Tells the meter what is done by an instant, in the order in which it was.
    fn complete(&mut self, until_ns: u64) {
        while let Some(first) = self.under_way.peek_mut()
            && first.0.done_ns <= until_ns
        {
            let Completed { done_ns, arrival_ns, op, offset, length, .. } = PeekMut::pop(first).0;
            self.meter.completed(arrival_ns, done_ns, op, offset, length);
        }
    }

    fn in_no_time(
        &mut self,
        requests: impl Iterator<Item = Result<Request, String>>,
    ) -> Result<(), String> {
        for request in requests {
            let request = request?;
            if !self.goes_on(0) {
                break;
            }
            self.count(0, &request)?;
            self.perform(&request).map_err(|error| error.to_string())?;
            let Request { op, offset, length, .. } = request;
            self.meter.completed(0, 0, op, offset, length);
        }
        Ok(())
    }

    fn perform(&mut self, request: &Request) -> Result<(), mjolnir_flash::ftl::FtlError> {
        let page_bytes = self.page_bytes;
        let ftl = self.ssd.ftl_mut();
        let touched = request.offset / page_bytes..request.end().div_ceil(page_bytes);
        match request.op {
            Op::Read => {
                for page in touched {
                    ftl.read(page, None)?;
                }
            }
            Op::Write => {
                for page in touched {
                    let (from, to) = (page * page_bytes, (page + 1) * page_bytes);
                    if request.offset > from || request.end() < to {
                        ftl.merge(page, None)?;
                    }
                    ftl.write(page, None)?;
                }
            }
            Op::Trim | Op::WriteZeroes => {
                for page in request.offset.div_ceil(page_bytes)..request.end() / page_bytes {
                    ftl.trim(page)?;
                }
            }
            Op::Flush => {
                ftl.flush(None)?;
            }
        }
        Ok(())
    }
}
