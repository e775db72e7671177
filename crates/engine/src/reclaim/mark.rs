//! Mark: one walk of the map that counts live blocks and indexes the candidates' referrers.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use futures_util::{FutureExt, StreamExt};
use mjolnir_device::{Device, Runtime};
use mjolnir_map::{
    MarkStep, Node, NodeId, PREFETCH_AHEAD, Twins, differing, prefetch, prefetch_line, word,
};
use mjolnir_store::Error;
use mjolnir_units::ZoneId;

use crate::engine::Engine;
use crate::memory::{leaves_held, loads_at_once, may_hold_leaves};
use crate::reclaim::live::{LiveMap, Mapped, Sheets, ZoneSet, set_all};
use crate::reclaim::relocate::yield_now;

/// Map nodes that are visited before clients get their turn.
const NODES_A_STEP: usize = 256;
/// Leaves per job, and of all jobs together, those that wait included, where there are two to eight processors.
/// So many per job that the processors' caches stay with them, though this thread has to do with each that ends;
/// few enough to freeze little of the map, and to end together.
const LEAVES_A_JOB: RangeInclusive<usize> = 256..=1024;
const LEAVES_IN_JOBS: usize = 4096;
/// Jobs for each processor, where there are few and this thread is none of those that do them: three wait, of
/// half a millisecond each. So long it may wait for one of the processors behind a job, even while another is
/// idle.
const JOBS_A_PROCESSOR: usize = 4;
/// The same where this thread does a part: unless clients keep it, it comes back sooner than two jobs end.
const JOBS_BESIDE: usize = 2;
/// Leaves that this thread scans before clients get their turn.
const LEAVES_A_TURN: usize = 128;
/// Leaves that are added to candidates' before clients get their turn, each counted for each of them.
const PAIRS_A_TURN: usize = 4096;
/// Words of a leaf that are asked at once whether any refers to a candidate.
const WORDS_AT_ONCE: usize = 8;
/// Nodes that are freed before clients get their turn.
const NODES_A_SWEEP: usize = 256;

/// What one job found.
pub(super) struct Found {
    /// Candidates, and leaves that refer to them, or whose twin does: each pair once.
    referrers: Vec<(ZoneId, NodeId)>,
    mapped: Mapped,
    leaves: u64,
    /// Words of all leaves, holes and what they have in common with others included.
    words: u64,
    /// Leaves that refer to candidates, and how many of them had a twin.
    pub referring: u64,
    pub twins: u64,
}

/// What a mark found, but for what went into the reverse index.
pub(super) struct Walked {
    pub live: LiveMap,
    /// Live blocks in all.
    pub blocks: u64,
    /// Whether nothing was referred to twice when it began.
    pub singly: bool,
    /// How often something had been referred to again by then
    /// ([`Map::referred_again`](mjolnir_map::Map::referred_again)).
    pub again: u64,
    /// Whether many leaves that refer to candidates had a twin, and leaves may be held for it.
    pub twins: bool,
}

/// A leaf that a job is done with.
#[derive(Clone)]
struct Scanned {
    /// Which of the job's leaves.
    number: usize,
    mapped: Mapped,
    /// Its candidates, among those that the job found.
    referrers: Range<usize>,
}

/// The candidates that one leaf after another refers to.
struct Referrers<'a> {
    candidates: &'a ZoneSet,
    found: Vec<(ZoneId, NodeId)>,
    /// For each found the candidate's place in the set.
    places: Vec<usize>,
    /// For each candidate the last leaf, counted from 1, that was found to refer to it.
    known: Vec<usize>,
}

impl<'a> Referrers<'a> {
    fn new(candidates: &'a ZoneSet) -> Self {
        let known = vec![0; candidates.len()];
        Referrers { candidates, found: Vec::new(), places: Vec::new(), known }
    }

    /// Leaf `number` refers to what its twin does, or did but for some words.
    fn add_those_of_twin(&mut self, leaf: NodeId, number: usize, twin: Range<usize>) {
        for index in twin {
            let (zone, place) = (self.found[index].0, self.places[index]);
            self.known[place] = number + 1;
            self.found.push((zone, leaf));
            self.places.push(place);
        }
    }

    /// Leaf `number` has these words, among others.
    fn add(&mut self, leaf: NodeId, number: usize, words: &[u64]) {
        if self.known.is_empty() {
            return;
        }
        // Few refer to candidates: of some at once it is found out without a branch that depends on one.
        let near = words.chunks(WORDS_AT_ONCE).filter(|words| self.candidates.may_find_any(words));
        for pba in near.flatten().filter_map(|word| word::pba(*word)) {
            if let Some((zone, place)) = self.candidates.find(pba)
                && std::mem::replace(&mut self.known[place], number + 1) != number + 1
            {
                self.found.push((zone, leaf));
                self.places.push(place);
            }
        }
    }
}

/// What the jobs of a mark found, in numbers.
#[derive(Default)]
struct Tally {
    /// Leaves that refer to candidates, and how many of them had a twin.
    referring: u64,
    with_twin: u64,
    /// Blocks that are mapped, each as often as it is.
    mapped_blocks: u64,
}

/// How a mark is divided.
#[derive(Debug, PartialEq, Eq)]
struct Portions {
    /// Leaves of a job.
    leaves: usize,
    /// Jobs that run or wait.
    jobs: usize,
}

impl Portions {
    /// For so many processors, of which one is this thread's, which does a part; else as [`of`](Self::of).
    fn beside(processors: usize, held: usize) -> Self {
        let jobs = (processors - 1) * JOBS_BESIDE;
        // Less than two more are being gathered.
        let leaves = Self::of(processors, usize::MAX).leaves.min(held / (jobs + 2)).max(1);
        Portions { leaves, jobs }
    }

    /// For so many processors, where jobs may hold `held` leaves.
    fn of(processors: usize, held: usize) -> Self {
        let leaves = LEAVES_IN_JOBS / (processors * JOBS_A_PROCESSOR);
        let leaves = leaves.clamp(*LEAVES_A_JOB.start(), *LEAVES_A_JOB.end());
        let few = processors + processors.div_ceil(4);
        let jobs = match processors {
            1 => few, // This thread has that one when it hands jobs out.
            _ => (LEAVES_IN_JOBS / leaves).max(processors + processors.div_ceil(2)),
        };
        // Less than one more is being gathered.
        let leaves = leaves.min(held / (few + 1)).max(1);
        Portions { leaves, jobs: jobs.min((held / leaves).saturating_sub(1)).max(few) }
    }
}

/// Takes as many out as are a portion, or what is left if no more will come.
fn take_portion<T>(gathered: &mut Vec<T>, most: usize, all: bool) -> Option<Vec<T>> {
    match gathered.len() {
        more if more > most => Some(gathered.drain(..most).collect()),
        some if some == most || (all && some > 0) => Some(std::mem::take(gathered)),
        _ => None,
    }
}

/// Whether so many of some leaves have a twin that it is worth looking for one.
pub(super) fn are_many(with_twin: u64, leaves: u64) -> bool {
    with_twin > leaves / 4
}

/// The pure part: runs on any thread, over frozen leaves. `job` is the job's number.
pub(super) fn scan(
    leaves: &[(NodeId, Arc<Node>)],
    live: &Sheets,
    job: usize,
    candidates: &ZoneSet,
) -> Found {
    let mut sheet = live.sheet(job);
    let mut referrers = Referrers::new(candidates);
    let mut twins: Twins<Scanned> = Twins::default();
    let (mut sum, mut all_words, mut referring, mut with_twin) = (Mapped::default(), 0, 0, 0);
    for (number, (id, leaf)) in leaves.iter().enumerate() {
        // Leaves come from the processor that has just counted the job in as their holder. They are on
        // their way while others are worked on, and the first words of the next one: by them its twin is
        // found. What follows them up to the first edit is asked for below.
        leaves.get(number + PREFETCH_AHEAD).into_iter().for_each(|(_, later)| prefetch(later));
        let next = leaves.get(number + 1).and_then(|(_, next)| next.entries().pieces().next());
        let next = next.map_or(&[][..], |(_, words)| words);
        prefetch_line(next);
        let (words, from) = (leaf.entries(), referrers.found.len());
        all_words += words.len() as u64;
        let Some(key) = words.key() else { continue };
        let twin = twins.find(words, |twin| leaves[twin.number].1.entries());
        let has_twin = twin.is_some();
        let mapped = match twin.cloned() {
            None => words.pieces().fold(Mapped::default(), |mapped, (at, piece)| {
                referrers.add(*id, number, piece);
                mapped + set_all(&mut sheet, piece, next.get(at..).unwrap_or_default())
            }),
            Some(twin) => {
                referrers.add_those_of_twin(*id, number, twin.referrers);
                let mut mapped = twin.mapped;
                differing(words, leaves[twin.number].1.entries(), |_, piece, instead_of| {
                    referrers.add(*id, number, piece);
                    mapped = mapped + set_all(&mut sheet, piece, &[]) - Mapped::of(instead_of);
                });
                mapped
            }
        };
        sum = sum + mapped;
        let referrers = from..referrers.found.len();
        referring += u64::from(!referrers.is_empty());
        with_twin += u64::from(!referrers.is_empty() && has_twin);
        twins.keep(key, Scanned { number, mapped, referrers });
    }
    Found {
        referrers: referrers.found,
        mapped: sum,
        leaves: leaves.len() as u64,
        words: all_words,
        referring,
        twins: with_twin,
    }
}

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Walks the map once. Leaves the candidates' referrers in the reverse index.
    pub(super) async fn mark(&self) -> Result<Walked, Error> {
        let (live, candidates, singly, again) = {
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
            let live = Sheets::new(zones, zone_blocks, judged, jobs);
            state.reclaim.mark_bytes = live.sheet_bytes() * jobs as u64;
            let candidates = ZoneSet::new(zones, zone_blocks, state.reclaim.index.candidates());
            let again = state.map.referred_again();
            let singly = state.reclaim.singly_at == Some(again);
            (Arc::new(live), Arc::new(candidates), singly, again)
        };
        let mut jobs = FuturesUnordered::new();
        let scanned = self.scan_map(&live, &candidates, &mut jobs).await;
        if scanned.is_err() {
            // Given up: none goes on that holds leaves and sheets.
            while let Some((_, took)) = jobs.next().await {
                self.state().reclaim.counters.scan_cpu_ns += took.as_nanos() as u64;
            }
        }
        let Tally { referring, with_twin, mapped_blocks } = scanned?;
        // Nothing is grey and nothing in flight, in this very step.
        self.state().map.end_mark();
        self.sweep().await;
        let live = Arc::into_inner(live).expect("all jobs have ended");
        let live = self.count(live, &candidates).await;
        let mut state = self.state();
        state.reclaim.nodes_marked = state.map.nodes();
        let blocks = live.total();
        let once = mapped_blocks == blocks && state.map.referred_again() == again;
        state.reclaim.singly_at = once.then_some(again);
        drop(state);
        let twins = may_hold_leaves(&self.inner.options) && are_many(with_twin, referring);
        Ok(Walked { live, blocks, singly, again, twins })
    }

    /// Has all leaves scanned, by jobs that are among `jobs` until they have ended. Returns in the step in
    /// which nothing was left to visit, and none of them.
    async fn scan_map(
        &self,
        live: &Arc<Sheets>,
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
        // What is loaded stays until the next step has seen it, which sees no more leaves than these.
        let loads_most = loads_at_once(&self.inner.options).min(portions.leaves);
        let (mut leaves, mut kept) = (Vec::new(), Vec::new());
        loop {
            let wall_before = self.runtime().now();
            let (mut step, mut cpu) = (MarkStep::default(), Duration::ZERO);
            // Else enough is gathered for as long as all jobs are taken.
            if own.is_none() || leaves.len() < portions.leaves {
                (step, cpu) = self.mark_piece(portions.leaves);
                drop(kept);
                leaves.append(&mut step.leaves);
                // It tells of the others again.
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
                let (live, candidates) = (live.clone(), candidates.clone());
                let job = self.runtime().parallel_steps(move |job| {
                    let found = scan(&leaves, &live, job, &candidates);
                    let words = found.words;
                    (found, words)
                });
                jobs.push(job.boxed_local());
            }
            if step.done && jobs.is_empty() && found.is_empty() {
                // Nor is any leaf left: all were handed out.
                return Ok(tally);
            }
            let full = jobs.len() >= portions.jobs;
            match own {
                Some(number) if full && !leaves.is_empty() => {
                    found.push(self.scan_some(&mut leaves, live, number, candidates));
                }
                _ if step.done || (full && own.is_none()) => found.extend(jobs.next().await),
                _ => {}
            }
            for (number, (found, took)) in found.into_iter().enumerate() {
                if number > 0 {
                    yield_now().await; // What follows the last one is below.
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
        live: &Sheets,
        job: usize,
        candidates: &ZoneSet,
    ) -> (Found, Duration) {
        let before = self.runtime().cpu_time();
        let some = leaves.split_off(leaves.len().saturating_sub(LEAVES_A_TURN));
        let found = scan(&some, live, job, candidates);
        drop(some);
        (found, self.runtime().cpu_time().saturating_sub(before))
    }

    /// What the jobs marked, counted, with the bits of the candidates. All but a little is work for jobs, and
    /// for this thread between turns of clients.
    async fn count(&self, marked: Sheets, candidates: &Arc<ZoneSet>) -> LiveMap {
        let processors = self.runtime().parallelism();
        let ended = marked.end(processors);
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

    /// Gives back the memory of what the last mark did not visit.
    pub(crate) async fn sweep(&self) {
        while self.state().map.sweep(NODES_A_SWEEP) {
            yield_now().await; // Clients get their turn between steps.
        }
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
                let forced = state.is_forced() && !state.clients_came();
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

/// The inner loop of a mark alone, for measuring it over a map without a store.
#[doc(hidden)]
pub struct MarkLoop {
    live: Sheets,
    candidates: ZoneSet,
}

impl MarkLoop {
    /// Map nodes that a store visits in one go.
    pub const NODES_A_STEP: usize = NODES_A_STEP;

    /// For a device of `zones` zones of `zone_blocks` blocks; no block is live yet.
    pub fn new(zones: usize, zone_blocks: u64) -> Self {
        let judged = (0..zones as u32).map(ZoneId).collect();
        MarkLoop {
            live: Sheets::new(zones, zone_blocks, judged, 1),
            candidates: ZoneSet::new(zones, zone_blocks, std::iter::empty()),
        }
    }

    /// Marks what leaves refer to, as a store does; returns how many mappings they have.
    pub fn scan(&self, leaves: &[(NodeId, Arc<Node>)]) -> u64 {
        scan(leaves, &self.live, 0, &self.candidates).mapped.words
    }

    /// Live blocks in the end.
    pub fn live_blocks(self) -> u64 {
        self.live.counted(&self.candidates).counts().map(|(_, blocks)| u64::from(blocks)).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use mjolnir_map::Map;
    use mjolnir_units::{Lba, Pba, TreeId};
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// All that a mark hands out.
    pub fn leaves_of(map: &mut Map) -> Vec<(NodeId, Arc<Node>)> {
        map.begin_mark();
        let mut leaves = Vec::new();
        loop {
            let step = map.mark_step(100);
            leaves.extend(step.leaves);
            if step.done {
                return leaves;
            }
        }
    }

    #[test]
    fn portions_are_within_what_jobs_may_hold_and_one_more_than_run_at_once() {
        for processors in 1..=200 {
            for held in [1, 7, 100, 700, 1_500, 5_000, 1 << 20] {
                let Portions { leaves, jobs } = Portions::of(processors, held);
                assert!(leaves >= 1 && jobs > processors, "{processors} {held}");
                // One for each job is the least, whatever may be held.
                assert!(leaves == 1 || leaves * (jobs + 1) <= held, "{processors} {held}");
                let most = LEAVES_IN_JOBS.max(LEAVES_A_JOB.start() * 3 * processors.div_ceil(2));
                assert!(leaves * jobs <= most, "{processors} {held}");
            }
        }
        for processors in 2..=200 {
            for held in [1, 7, 100, 700, 1_500, 5_000, 1 << 20] {
                let Portions { leaves, jobs } = Portions::beside(processors, held);
                assert!(leaves >= 1 && jobs >= processors, "{processors} {held}");
                assert!(leaves == 1 || leaves * (jobs + 2) <= held, "{processors} {held}");
            }
        }
        let beside = |processors| Portions::beside(processors, 1 << 20);
        assert_eq!(beside(2), Portions { leaves: 512, jobs: 2 });
        assert_eq!(beside(16), Portions { leaves: 256, jobs: 30 });
        let of = |processors| Portions::of(processors, 1 << 20);
        assert_eq!(of(1), Portions { leaves: 1024, jobs: 2 });
        assert_eq!(of(2), Portions { leaves: 512, jobs: 8 });
        assert_eq!(of(16), Portions { leaves: 256, jobs: 24 });
    }

    #[test]
    fn what_is_gathered_is_handed_out_in_portions_all_of_it_once() {
        for (steps, most) in [(vec![3, 0, 2, 5, 1], 4), (vec![256; 9], 512), (vec![7, 0], 7)] {
            let all: usize = steps.iter().sum();
            let (mut gathered, mut handed, mut next) = (Vec::new(), Vec::new(), 0);
            for (number, count) in steps.iter().enumerate() {
                gathered.extend(next..next + count);
                next += count;
                let last = number + 1 == steps.len();
                while let Some(portion) = take_portion(&mut gathered, most, last) {
                    assert!(portion.len() == most || (last && (1..most).contains(&portion.len())));
                    handed.extend(portion);
                }
                assert!(gathered.len() < most);
            }
            assert_eq!(handed, (0..all).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_leaf_and_its_twins_are_marked_as_each_alone_would_be() {
        const ZONES: usize = 1 << 11;
        const ZONE: u64 = 1 << 5;
        let mut chance = Pcg64::seed_from_u64(3);
        let mut below = |limit: u64| chance.next_u64() % limit;
        let mut map = Map::new();
        map.create(TreeId(1), 4000);
        for snapshot in 0..60 {
            for _ in 0..if snapshot == 0 { 3000 } else { 1 + below(8) } {
                let (lba, blocks) = (below(3990), 1 + below(2) * below(9));
                if below(20) == 0 {
                    map.trim(TreeId(1), Lba(lba), blocks).unwrap();
                } else {
                    map.write(TreeId(1), Lba(lba), Pba(below((ZONES as u64 - 1) * ZONE)), blocks)
                        .unwrap();
                }
            }
            map.snapshot(TreeId(1), TreeId(10 + snapshot));
        }
        let leaves = leaves_of(&mut map);
        let live = Sheets::new(ZONES, ZONE, (0..ZONES as u32).map(ZoneId).collect(), 1);
        let candidates = ZoneSet::new(ZONES, ZONE, (0..40).map(|i| ZoneId(i * 37)));
        let found = scan(&leaves, &live, 0, &candidates);

        let alone = Sheets::new(ZONES, ZONE, (0..ZONES as u32).map(ZoneId).collect(), 1);
        let (mut referrers, mut mapped) = (Vec::new(), Mapped::default());
        for leaf in &leaves {
            let found = scan(std::slice::from_ref(leaf), &alone, 0, &candidates);
            referrers.extend(found.referrers);
            mapped = mapped + found.mapped;
        }
        let [live, alone] = [live, alone].map(|sheets| sheets.counted(&candidates));
        assert_eq!(live.total(), alone.total());
        assert!(live.counts().eq(alone.counts()));
        assert_eq!((found.mapped, found.leaves), (mapped, leaves.len() as u64));
        // Some are told of a leaf because its twin refers to them; each once.
        let told: BTreeSet<_> = found.referrers.iter().copied().collect();
        assert_eq!(told.len(), found.referrers.len());
        assert!(referrers.iter().all(|pair| told.contains(pair)));
        assert!(told.len() < referrers.len() * 5 / 4, "{} for {}", told.len(), referrers.len());
        assert!(told.len() > referrers.len(), "no leaf had a twin that differed");
    }

    #[test]
    fn each_candidate_that_a_leaf_refers_to_is_told_once() {
        const ZONE: u64 = 1 << 12;
        let mut map = Map::new();
        map.create(TreeId(1), 4000);
        for lba in 0..4000 {
            // By turns: two candidates, and another segment.
            map.write(TreeId(1), Lba(lba), Pba((1 + lba % 3) * ZONE + lba), 1).unwrap();
        }
        let leaves = leaves_of(&mut map);
        assert!(leaves.len() > 5);
        let live = Sheets::new(8, ZONE, vec![ZoneId(1), ZoneId(2), ZoneId(3)], 1);
        let candidates = ZoneSet::new(8, ZONE, [ZoneId(3), ZoneId(5), ZoneId(1)].into_iter());
        let found = scan(&leaves, &live, 0, &candidates);
        let mut expected: Vec<_> =
            leaves.iter().flat_map(|(id, _)| [(ZoneId(1), *id), (ZoneId(3), *id)]).collect();
        let mut referrers = found.referrers;
        referrers.sort();
        expected.sort();
        assert_eq!(referrers, expected);
        assert_eq!((found.leaves, found.mapped.words), (leaves.len() as u64, 4000));
        assert_eq!(live.counted(&candidates).total(), 4000);
    }
}
