//! Mark: one walk of the map that counts live blocks and indexes the candidates' referrers.

pub(in crate::reclaim) mod live;
mod mapped;
mod portions;
pub(in crate::reclaim) mod scan;
pub(in crate::reclaim) mod sheets;
pub(in crate::reclaim) mod zone_set;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use futures_util::{FutureExt, StreamExt};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{MarkStep, Node, NodeId};
use mjolnir_store::Error;

use crate::drive::Engine;
use crate::memory::{leaves_held, loads_at_once, may_hold_leaves};
use crate::reclaim::mark::live::Live;
use crate::reclaim::mark::portions::{Portions, take_portion};
use crate::reclaim::mark::scan::{Found, scan};
use crate::reclaim::mark::sheets::Sheets;
use crate::reclaim::mark::zone_set::ZoneSet;
use crate::yielding::yield_now;

/// Map nodes that are visited before clients get their turn.
const NODES_A_STEP: usize = 256;

/// Leaves of a job: enough that a processor's cache stays with the job, though this thread handles each job that
/// ends; few enough that little of the map is frozen, and that the last jobs end together.
const LEAVES_A_JOB: RangeInclusive<usize> = 256..=1024;

/// Leaves of all jobs together, those that wait included, where there are two to eight processors.
const LEAVES_IN_JOBS: usize = 4096;

/// Jobs for each processor, where there are few processors and this thread does no job itself: one runs and
/// three wait, of half a millisecond each. This thread may have to wait as long for a processor that runs a job,
/// even while another processor is idle.
const JOBS_A_PROCESSOR: usize = 4;

/// Jobs for each processor where this thread scans, too: unless clients keep it, it comes back before two jobs
/// have ended.
const JOBS_BESIDE: usize = 2;

/// Leaves that this thread scans before clients get their turn.
const LEAVES_A_TURN: usize = 128;

/// Pairs of a candidate and a leaf that are added to the reverse index before clients get their turn.
const PAIRS_A_TURN: usize = 4096;

/// What the jobs of a mark found, in numbers.
#[derive(Default)]
struct Tally {
    /// Leaves that refer to candidates, and how many of them had a twin.
    referring: u64,
    with_twin: u64,
    /// Blocks that are mapped, each counted as often as it is mapped.
    mapped_blocks: u64,
}

/// Whether enough of these leaves have a twin that it is worth looking for twins.
pub(in crate::reclaim) fn are_many(with_twin: u64, leaves: u64) -> bool {
    with_twin > leaves / 4
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Walks the map once. Leaves the candidates' referrers in the reverse index.
    pub(in crate::reclaim) async fn mark(&self) -> Result<Live, Error> {
        let (sheets, candidates, again, singly_at) = {
            let mut state = self.state();
            let tracking = !state.reclaim.index.is_empty();
            state.map.track_leaves(tracking);
            state.map.begin_mark();
            state.reclaim.released.begin_mark();
            let (zones, zone_blocks) = (state.space.segments.len(), state.space.zone_blocks);
            let candidates: Vec<u32> =
                state.reclaim.index.candidates().map(|zone| zone.0).collect();
            state.map.watch_displaced(zones, zone_blocks, &candidates);
            let judged = state.space.sealed_data().map(|(zone, _)| zone).collect();
            let jobs = self.runtime().parallelism();
            let sheets = Sheets::new(zones, zone_blocks, judged, jobs);
            state.reclaim.mark_bytes = sheets.sheet_bytes() * jobs as u64;
            let candidates = ZoneSet::new(zones, zone_blocks, state.reclaim.index.candidates());
            let again = state.map.referred_again();
            let singly_at = state.reclaim.singly_at.filter(|at| *at == again);
            (Arc::new(sheets), Arc::new(candidates), again, singly_at)
        };
        let mut jobs = FuturesUnordered::new();
        let scanned = self.scan_map(&sheets, &candidates, &mut jobs).await;
        if scanned.is_err() {
            // The mark is given up: no job may go on that holds leaves and sheets.
            while let Some((_, took)) = jobs.next().await {
                self.state().reclaim.counters.scan_cpu_ns += took.as_nanos() as u64;
            }
        }
        let Tally { referring, with_twin, mapped_blocks } = scanned?;
        // Nothing is grey and nothing in flight, in this very step.
        self.state().map.end_mark();
        self.sweep().await;
        let sheets = Arc::into_inner(sheets).expect("all jobs have ended");
        let mut live = self.count(sheets, &candidates).await;
        let mut state = self.state();
        state.reclaim.nodes_marked = state.map.nodes();
        let once = mapped_blocks == live.blocks && state.map.referred_again() == again;
        state.reclaim.singly_at = once.then_some(again);
        drop(state);
        live.singly_at = singly_at;
        live.twins = may_hold_leaves(&self.inner.options) && are_many(with_twin, referring);
        Ok(live)
    }

    /// Has all leaves scanned, by jobs that are among `jobs` until they have ended. Returns in the step in
    /// which nothing was left to visit, and none of them.
    async fn scan_map(
        &self,
        sheets: &Arc<Sheets>,
        candidates: &Arc<ZoneSet>,
        jobs: &mut FuturesUnordered<LocalBoxFuture<'static, (Found, Duration)>>,
    ) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let (processors, held) = (self.runtime().parallelism(), leaves_held(&self.inner.options));
        let own = self.runtime().own_job();
        let portions = match own {
            None => Portions::of(processors, held),
            Some(_) => Portions::beside(processors, held),
        };
        let jobs_most = own.map_or(usize::MAX, |_| portions.jobs);
        // Loaded nodes stay until the next step has seen them. A step sees no more leaves than these.
        let loads_most = loads_at_once(&self.inner.options).min(portions.leaves);
        let (mut leaves, mut kept) = (Vec::new(), Vec::new());
        loop {
            let wall_before = self.runtime().now();
            let (mut step, mut cpu) = (MarkStep::default(), Duration::ZERO);
            // Otherwise enough leaves are gathered until a job ends.
            if own.is_none() || leaves.len() < portions.leaves {
                (step, cpu) = self.mark_piece(portions.leaves);
                drop(kept);
                leaves.append(&mut step.leaves);
                // The next step names the others again.
                step.absent.truncate(loads_most);
                kept = self.load_nodes(step.absent).try_collect().await?;
            }
            let mut found = Vec::new();
            if own.is_some() {
                found.extend(std::iter::from_fn(|| jobs.next().now_or_never().flatten()));
            }
            while jobs.len() < jobs_most
                && let Some(leaves) = take_portion(&mut leaves, portions.leaves, step.done)
            {
                let (sheets, candidates) = (sheets.clone(), candidates.clone());
                let job = self.runtime().parallel_steps(move |job| {
                    let found = scan(&leaves, &sheets, job, &candidates);
                    let words = found.words;
                    (found, words)
                });
                jobs.push(job.boxed_local());
            }
            if step.done && jobs.is_empty() && found.is_empty() {
                // No leaf is left either: all were handed out.
                return Ok(tally);
            }
            let full = jobs.len() >= portions.jobs;
            match own {
                Some(number) if full && !leaves.is_empty() => {
                    found.push(self.scan_some(&mut leaves, sheets, number, candidates));
                }
                _ if step.done || (full && own.is_none()) => found.extend(jobs.next().await),
                _ => {}
            }
            for (number, (found, took)) in found.into_iter().enumerate() {
                if number > 0 {
                    yield_now().await; // The turn after the last one is below.
                }
                cpu += took + self.take_over(found, &mut tally).await;
            }
            self.rest_after_scan(cpu, self.runtime().now() - wall_before).await;
            yield_now().await; // Clients get their turn between steps.
            if self.state().closing || self.state().failed.is_some() {
                return Err(Error::new(mjolnir_store::ErrorKind::Closed, "the store is closing"));
            }
        }
    }

    /// Adds what a job found to the tally and to the reverse index, and returns the processor time it took.
    async fn take_over(&self, found: Found, tally: &mut Tally) -> Duration {
        tally.referring += found.referring;
        tally.with_twin += found.twins;
        tally.mapped_blocks += found.mapped.blocks;
        {
            let mut state = self.state();
            state.reclaim.counters.leaves_scanned += found.leaves;
            state.reclaim.counters.mappings_scanned += found.mapped.words;
        }
        let mut cpu = Duration::ZERO;
        for (number, pairs) in found.referrers.chunks(PAIRS_A_TURN).enumerate() {
            if number > 0 {
                yield_now().await; // Clients get their turn between steps.
            }
            let before = self.runtime().cpu_time();
            {
                let mut state = self.state();
                pairs.iter().for_each(|(zone, leaf)| state.reclaim.index.add(*zone, *leaf));
            }
            cpu += self.runtime().cpu_time().saturating_sub(before);
        }
        cpu
    }

    /// Scans a few of the leaves that were gathered last, in this thread.
    fn scan_some(
        &self,
        leaves: &mut Vec<(NodeId, Arc<Node>)>,
        sheets: &Sheets,
        job: usize,
        candidates: &ZoneSet,
    ) -> (Found, Duration) {
        let before = self.runtime().cpu_time();
        let some = leaves.split_off(leaves.len().saturating_sub(LEAVES_A_TURN));
        let found = scan(&some, sheets, job, candidates);
        drop(some);
        (found, self.runtime().cpu_time().saturating_sub(before))
    }

    /// Counts the bits of all sheets, and joins those of the candidates. Jobs do that, and this thread between
    /// turns of clients; this thread alone where it is little work.
    async fn count(&self, sheets: Sheets, candidates: &Arc<ZoneSet>) -> Live {
        let processors = self.runtime().parallelism();
        let ended = sheets.end(processors);
        self.state().reclaim.mark_bytes += ended.candidates_bytes(candidates);
        if ended.is_little() {
            let pieces = ended.count_left(candidates).collect();
            return ended.counted(pieces);
        }
        let ended = Arc::new(ended);
        let counts_here = self.runtime().own_job().is_some();
        let mut jobs: FuturesUnordered<_> = (0..processors - usize::from(counts_here))
            .map(|_| {
                let (ended, candidates) = (ended.clone(), candidates.clone());
                let count = move |_| ended.count_left(&candidates).collect::<Vec<_>>();
                self.runtime().parallel(count)
            })
            .collect();
        let (mut pieces, mut cpu) = (BTreeMap::new(), Duration::ZERO);
        if counts_here {
            loop {
                let before = self.runtime().cpu_time();
                let Some((number, piece)) = ended.count_left(candidates).next() else { break };
                pieces.insert(number, piece);
                cpu += self.runtime().cpu_time().saturating_sub(before);
                yield_now().await; // Clients get their turn between steps.
            }
        }
        while let Some((counted, took)) = jobs.next().await {
            pieces.extend(counted);
            cpu += took;
        }
        self.state().reclaim.counters.scan_cpu_ns += cpu.as_nanos() as u64;
        let ended = Arc::into_inner(ended).expect("all jobs have ended");
        ended.counted(pieces)
    }

    /// A piece of the walk, which freezes a bounded part of the map, and the processor time it took.
    fn mark_piece(&self, leaves: usize) -> (MarkStep, Duration) {
        let before = self.runtime().cpu_time();
        let step = self.state().map.mark_step_within(NODES_A_STEP, leaves);
        (step, self.runtime().cpu_time().saturating_sub(before))
    }

    /// Keeps scanning within its share of a processor.
    async fn rest_after_scan(&self, cpu: Duration, mut wall: Duration) {
        let mut cpu = cpu;
        loop {
            let rest = {
                let mut state = self.state();
                state.reclaim.counters.scan_cpu_ns += cpu.as_nanos() as u64;
                let forced = state.reclaim.is_forced() && !state.clients_came();
                let full_speed = state.reclaim.urgent || forced || state.closing;
                if full_speed {
                    return;
                }
                let pressure = state.reclaim.last_pacing.pressure;
                state.reclaim.budget.rest(cpu, wall, pressure)
            };
            if rest.is_zero() {
                return;
            }
            let before = self.runtime().now();
            self.runtime().sleep(rest).await;
            wall = self.runtime().now() - before;
            cpu = Duration::ZERO;
        }
    }
}
